#!/bin/bash
# failures.sh BUILD: training that fails has exit status 4 and prints one line that names the step; the same for a folder that
# cannot be written to.
source "$(dirname "$0")/check.bash"

ends 4 'the loss is (NaN|infinite) at epoch 1, step [0-9]+; try a smaller --learning-rate' \
    train basic --learning-rate 1e30 --verbose 0
ends 4 'the loss is (NaN|infinite) at epoch 1, step [0-9]+' train basic --learning-rate 1e30 --rows 640 --json --verbose 0
[ ! -s out ] || complain "a run that failed has no result: $(cat out)"

# What was saved before the loss was lost stays.
"$lockstep" train mlp --rows 640 --epochs 1 --verbose 0 --save run || complain "run: failed"
cp -r run/backup before
ends 4 'the loss is (NaN|infinite) at epoch 2' train mlp --rows 640 --epochs 9 --verbose 0 --save run --resume --learning-rate 1e30
diff -r before run/backup || complain "the backup was replaced"

# ---- no room ----
# On a file system of 256 KiB where one can be made, else with a limit on the size of files.
mkdir small
full() { # arguments of lockstep; its exit status
    if unshare -rm true 2>/dev/null && unshare -rm mount -t tmpfs -o size=256k none small 2>/dev/null; then
        unshare -rm sh -c 'mount -t tmpfs -o size=256k none small && exec "$@"' sh "$lockstep" "$@"
    else
        (trap '' XFSZ; ulimit -f 256; exec "$lockstep" "$@")
    fi
}
full train basic --rows 128 --epochs 1 --verbose 0 --save small/run >out 2>err
status=$?
[ $status -eq 4 ] || complain "no room for --save: exit status $status: $(cat err)"
tail -n 1 err | grep -qE '^lockstep: .*small/run/.*(No space left on device|File too large)' ||
    complain "no room for --save: $(cat err)"
grep -qE 'a backup could not be saved: .*small/run/backup/.*(No space left on device|File too large)' err ||
    complain "no room for backups: $(cat err)"

if [ -w /dev/full ]; then
    "$lockstep" help train >/dev/full 2>err
    [ $? -eq 3 ] && grep -q 'standard output could not be written' err || complain "help to a full disk: $(cat err)"
fi
touch file
ends 3 '--save file/run: Not a directory' train basic --steps 1 --save file/run
ends 3 '--save file: Not a directory' train basic --steps 1 --save file
ends 3 '--plot nowhere/curves.svg: No such file' train mlp --rows 64 --epochs 1 --plot nowhere/curves.svg
ends 3 '--plot file/curves.svg: Not a directory' train mlp --rows 64 --epochs 1 --plot file/curves.svg
ends 3 '--save x*\.\.\.: File name too long' train mlp --steps 1 --save "$(printf 'x%.0s' $(seq 5000))"
mkdir readonly && chmod 555 readonly
if [ "$(id -u)" -ne 0 ]; then
    for folder in readonly readonly/run readonly/a/b; do
        ends 3 "--save $folder: Permission denied" train mlp --steps 1 --save $folder
    done
fi

# Drawing that fails does not take the result along.
json=$(trap '' XFSZ; ulimit -f 1; exec "$lockstep" train mlp --rows 64 --epochs 1 --verbose 0 --json --plot curves.svg 2>err)
status=$?
[ $status -eq 4 ] && [ "$(field steps)" = 1 ] && grep -q '^lockstep: .*curves.svg' err ||
    complain "no room for the curves: $status $json $(cat err)"
exit $bad
