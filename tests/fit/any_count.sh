#!/bin/bash
# any_count.sh BUILD: the program reports that 1, 2, 4 and 8 replicas, and a run stopped on 8 and finished on 2, give the same bits;
# it leaves no files.
build=$(realpath "${1:?usage: any_count.sh BUILD}")
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp" || exit 1
"$build/examples/any_count" >out 2>log || { echo "any_count: failed"; cat out log; exit 1; }
diff - out <<'EXPECTED' || { echo "any_count: printed something else (<: should be)"; cat log; exit 1; }
1 against 2 replicas: same bits
1 against 4 replicas: same bits
1 against 8 replicas: same bits
resumed on another count: same bits
EXPECTED
[ ! -e backup ] || { echo "any_count: the backup is still there"; exit 1; }
