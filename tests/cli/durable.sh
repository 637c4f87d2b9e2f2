#!/bin/bash
# durable.sh BUILD: a run leaves only complete files on the disk, whatever happened before or meanwhile: closed standard
# descriptors, a history.csv that a power loss cut, logs that cannot be written, a folder that was removed, pipes instead of files,
# a lock that a dying process still holds.
. "$(dirname "$0")/check.bash"

run="train $here/normalised.json --rows 640 --batch 32 --epochs 4 --json --verbose 2"

# What is printed goes into no file, whichever descriptors are closed.
begun_right() { # folder
    [ "$(head -c 5 "$1/history.csv")" = epoch ] && [ "$(wc -l <"$1/history.csv")" -eq 5 ] ||
        complain "$1: history.csv: $(cat "$1/history.csv")"
    "$lockstep" inspect "$1"/tb/train/events* >inspected 2>&1 || complain "$1: $(cat inspected)"
    rm -rf "$1"
}
# shellcheck disable=SC2086 # words
"$lockstep" $run --save closed --tensorboard closed/tb >&- 2>&- || complain "1 and 2 closed: exit status $?"
begun_right closed
# shellcheck disable=SC2086 # words
"$lockstep" $run --save closed --tensorboard closed/tb <&- >&- 2>&- || complain "0 to 2 closed: exit status $?"
begun_right closed
# shellcheck disable=SC2086 # words
"$lockstep" $run --save closed --tensorboard closed/tb <&- 2>&- >out || complain "0 and 2 closed: exit status $?"
json=$(cat out)
[ -n "$(field digest)" ] || complain "0 and 2 closed: $(cat out)"
begun_right closed

# A history.csv that a power loss left cut, empty, full of zeros, changed, or not at all is written again from the backup.
run="train $here/normalised.json --rows 640 --batch 32 --epochs 4 --json --verbose 0"
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save whole 2>err) || complain "whole: $(cat err)"
want=$(field digest)
# shellcheck disable=SC2086 # words
"$lockstep" $run --save half --steps 50 >out 2>err || complain "half: $(cat err)"
harm() {
    case $1 in
    cut) truncate -s 100 "$2" ;;
    empty) truncate -s 0 "$2" ;;
    zeros) size=$(stat -c %s "$2") && : >"$2" && truncate -s "$size" "$2" ;;
    changed) sed -i '2s/^0,0\./0,1./' "$2" ;;
    missing) rm "$2" ;;
    esac
}
for how in cut empty zeros changed missing; do
    cp -r half "$how"
    harm $how $how/history.csv
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" $run --save $how --resume 2>err) || complain "history.csv $how: exit status $?: $(cat err)"
    [ "$(field digest)" = "$want" ] || complain "history.csv $how: $json"
    cmp whole/history.csv $how/history.csv || complain "history.csv $how: $(cat $how/history.csv)"
    grep -q "$how/history.csv .* written again from the backup" err || complain "history.csv $how: not a word: $(cat err)"
done
cp -r half fine
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save fine --resume 2>err) || complain "history.csv that is fine: $(cat err)"
grep -q history.csv err && complain "history.csv that is fine: $(cat err)"

# A log that cannot be written is a warning, given once, and the run ends well.
mkdir full
ln -s /dev/full full/history.csv
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save full 2>err) || complain "full: exit status $?: $(cat err)"
[ "$(field digest)" = "$want" ] || complain "full: $json"
[ "$(grep -c 'full/history.csv is incomplete: No space left on device; training continues' err)" -eq 1 ] ||
    complain "full: $(cat err)"
if unshare -rm true 2>/dev/null && [ -z "${LOCKSTEP_NO_MOUNTS:-}" ]; then
    # shellcheck disable=SC2016 # for the inner shell
    json=$(unshare -rm bash -c 'mkdir -p logs && mount -t tmpfs -o size=64k none logs && shift 0 && exec "$@"' - "$lockstep" \
        ${run/--epochs 4/--epochs 120} --save room --tensorboard logs 2>err) ||
        complain "a small disk for --tensorboard: exit status $?: $(cat err)"
    [ -n "$(field digest)" ] && [ -s room/model.keras -o -s room/ckpt.index ] ||
        complain "a small disk for --tensorboard: $json: $(ls room)"
    [ "$(grep -c 'TensorBoard: this log is incomplete: logs/.*: No space left on device; training continues' err)" -eq 1 ] ||
        complain "a small disk: $(cat err)"
fi
mkdir -p curves/history.svg
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save curves 2>err) || complain "history.svg cannot be written: exit status $?: $(cat err)"
[ -n "$(field digest)" ] && grep -q 'curves/history.svg could not be drawn: ' err ||
    complain "history.svg cannot be written: $json: $(cat err)"

# A folder that is removed while training runs is an error that says so.
# shellcheck disable=SC2086 # words
"$lockstep" ${run/--epochs 4/--epochs 100000} --save gone >out 2>err &
pid=$!
for _ in $(seq 1000); do
    [ -s gone/history.csv ] && break
    sleep 0.02
done
mv gone away && rm -rf away # at once: training goes on writing
sleep 0.1
kill -TERM $pid
wait $pid
status=$?
[ $status -eq 4 ] && grep -q 'gone was removed during training' err ||
    complain "a folder that was removed: exit status $status: $(cat err)"
[ -s gone/model.keras ] || [ -s gone/ckpt.index ] || complain "a folder that was removed: the model is lost: $(ls gone)"

# New folders are synced into those above, history.csv with its backup; what is written is a file of this run's own.
if strace -o calls true 2>/dev/null && ! sanitized; then
    # shellcheck disable=SC2086 # words
    strace -f -y -o calls -e trace=mkdir,open,openat,fsync,fdatasync,rename "$lockstep" $run --save deep/er/run >out 2>err ||
        complain "strace: $(cat err)"
    for new in deep deep/er deep/er/run deep/er/run/backup; do
        above=$(realpath "$new/..")
        sed -n "/mkdir(\"${new//\//\\/}\/*\".* = 0$/,\$p" calls | grep -qE "fsync\([0-9]+<$above/?>" ||
            complain "$new is made, and $above is not synced after that"
    done
    grep -qE 'f(data)?sync\([0-9]+<[^>]*/history\.csv' calls || complain "history.csv is never synced"
    grep -E '"[^"]*/(run\.json|history\.svg)[^"]*", [^)]*O_CREAT' calls >made
    [ -s made ] && ! grep -v O_EXCL made || complain "run.json or history.svg is not written into a new file"
fi

# Pipes that stand where files should be are not waited for, and links are not followed.
pipe() { timeout 5 "$lockstep" "$@" >out 2>err; }
mkdir pipes
mkfifo pipes/run.json.tmp pipes/run.json pipes/history.svg
# shellcheck disable=SC2086 # words
pipe $run --save pipes || complain "pipes: exit status $?: $(cat err)"
[ -f pipes/run.json ] && [ -f pipes/history.svg ] && [ ! -e pipes/run.json.tmp ] || complain "pipes: $(ls -l pipes)"
mkdir link
echo precious >precious
ln -s ../precious link/run.json.tmp
# shellcheck disable=SC2086 # words
pipe $run --save link || complain "link: exit status $?: $(cat err)"
[ "$(cat precious)" = precious ] || complain "link: a link was followed"
mkdir piped
mkfifo piped/history.csv
# shellcheck disable=SC2086 # words
pipe $run --save piped
status=$?
[ $status -eq 4 ] && grep -q 'history.csv: a pipe without a reader' err ||
    complain "history.csv, a pipe: exit status $status: $(cat err)"
mkfifo fifo fifo.csv fifo.keras fifo.json fifo.npz fifo.npy fifo.h5 fifo.index fifo.safetensors
for file in fifo*; do
    for words in "inspect $file" "summary $file"; do
        # shellcheck disable=SC2086 # words
        pipe $words
        status=$?
        [ $status -ge 2 ] && [ $status -le 4 ] || complain "lockstep $words, a pipe: exit status $status: $(cat err)"
    done
done
for words in "plot fifo.csv a.svg" "convert fifo.keras b.npz" "train mlp --data fifo.csv" "train mlp --data fifo.npz" \
    "train fifo.json"; do
    # shellcheck disable=SC2086 # words
    pipe $words
    status=$?
    [ $status -ge 2 ] && [ $status -le 4 ] || complain "lockstep $words, a pipe: exit status $status: $(cat err)"
done

# A lock that is let go soon is waited for: a process that was killed may hold it a moment longer, in a child that it was starting.
for folder in half half/backup; do
    cp -r half again
    (exec 8<"${folder/half/again}" && flock -x 8 && touch held && sleep 0.4) &
    for _ in $(seq 100); do
        [ -e held ] && break
        sleep 0.01
    done
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" $run --save again --resume 2>err) ||
        complain "a lock on $folder held for a moment: exit status $?: $(cat err)"
    wait
    [ "$(field digest)" = "$want" ] || complain "a lock on $folder held for a moment: $json"
    rm -rf again held
done

# The same with a run that was killed in earnest, while a child that is to become the helper had all of its descriptors: strace
# makes that moment last half a second.
if has_keras && ! sanitized && strace -f -o calls -e trace=close_range -e inject=close_range:delay_enter=1 true 2>/dev/null; then
    # shellcheck disable=SC2086 # words
    strace -f -o calls -e trace=close_range -e inject=close_range:delay_enter=500000 "$lockstep" $run --save killed >out 2>err &
    tracer=$! child=
    for _ in $(seq 500); do
        pid=$(cat /proc/$tracer/task/$tracer/children 2>/dev/null) pid=${pid%% *}
        child=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
        [ -z "$child" ] || break
        sleep 0.01
    done
    kill -KILL "$pid"
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" $run --save killed --resume 2>err) ||
        complain "killed while its helper was started: exit status $?: $(cat err)"
    [ "$(field digest)" = "$want" ] || complain "killed while its helper was started: $json"
    wait $tracer 2>/dev/null
fi
exit $bad
