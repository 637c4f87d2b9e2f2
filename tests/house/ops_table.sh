#!/bin/bash
# docs/ops.md is what tools/ops-table makes from the current lists of ops and kernels.
cd "$(dirname "$0")/../.." || exit 1
made=$(tools/ops-table) || exit 1
difference=$(diff docs/ops.md - <<<"$made") && exit 0
echo "docs/ops.md is out of date; this makes it anew: tools/ops-table > docs/ops.md"
head -n 20 <<<"$difference"
exit 1
