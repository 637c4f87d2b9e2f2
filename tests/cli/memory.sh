#!/bin/bash
# memory.sh BUILD: an epoch over all drawn digits, validation included, stays below 64 MiB: rows are kept packed, and nothing else is large.
source "$(dirname "$0")/check.bash"
sanitized && exit 77

for replicas in 1 2; do
    json=$("$lockstep" train basic --epochs 1 --replicas $replicas --json --verbose 0) || complain "train on $replicas replicas failed"
    peak=$(field peak_rss_mib)
    [ "$(field steps)" = 938 ] && [ "${peak%.*}" -lt 64 ] || complain "an epoch on $replicas replicas took ${peak:-?} MiB; at most 64 are allowed: $json"
    echo "$replicas replicas: $peak MiB"
done
exit $bad
