#!/bin/bash
# No line of a source is longer than 132 columns: characters, not bytes.
cd "$(dirname "$0")/../.." || exit 1

# Data that a script beside them makes: nobody reads them, and its next run would break lines as it likes.
made='tests/(unit/h5_files\.h|layer/[a-z]*_(cases|configs)\.inc|model/keras_values\.h)$'
later='tests/golden/' # is being worked on; this line goes when its comments are wrapped

found=$(find src include cli helper bench tests examples -type f |
    grep -E '\.(c|h|hpp|cpp|inc|cu|cc)$' | grep -vE "^($made|$later)" | sort | LC_ALL=C.UTF-8 xargs grep -nE '^.{133}')
[ -z "$found" ] && exit 0
echo "longer than 132 columns:"
cut -c1-200 <<<"$found"
exit 1
