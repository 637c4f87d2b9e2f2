#!/bin/bash
# resume.sh BUILD: Ctrl-C saves and prints how to resume; a resumed run ends with the weights of an uninterrupted one.
source "$(dirname "$0")/check.bash"
run="train $here/normalised.json --rows 640 --batch 32 --epochs 4 --json"

# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save straight 2>/dev/null) || complain "straight: failed"
straight=$(field digest)
[ "$(field steps)" = 80 ] || complain "straight: $json"

# Interrupted by the number of steps, within an epoch, twice; then to the end, on more replicas.
# shellcheck disable=SC2086 # words
{
    "$lockstep" $run --save parts --steps 30 >/dev/null 2>&1 || complain "parts: failed"
    "$lockstep" $run --save parts --steps 47 --resume >/dev/null 2>&1 || complain "parts, resumed: failed"
    json=$("$lockstep" $run --save parts --resume --replicas 4 2>err) || complain "parts, to the end: failed"
}
grep -q '^lockstep: parts: resumes in epoch 3, after step 7 of it, 47 in all$' err ||
    complain "parts: does not say where it goes on: $(cat err)"
# The history of an epoch that was interrupted is that of one that was not.
cmp straight/history.csv parts/history.csv ||
    complain "parts/history.csv: $(cat parts/history.csv); straight: $(cat straight/history.csv)"
[ "$(field digest)" = "$straight" ] || complain "parts: $json; straight: $straight"
[ "$(field steps)" = 80 ] || complain "parts: $json"
[ "$(cut -d, -f1 parts/history.csv | tr -d '\r' | xargs)" = "epoch 0 1 2 3" ] ||
    complain "parts/history.csv: $(cat parts/history.csv)"

# More epochs than were asked for at first; nothing left to do.
# shellcheck disable=SC2086 # words
json=$("$lockstep" ${run/--epochs 4/--epochs 5} --save parts --resume 2>/dev/null)
[ "$(field steps)" = 100 ] || complain "one epoch more: $json"
# shellcheck disable=SC2086 # words
"$lockstep" ${run/--epochs 4/--epochs 5} --save parts --resume 2>err >/dev/null || complain "nothing left to do: failed"
grep -q 'parts: nothing left to do, 100 steps are done' err || complain "nothing left to do: $(tail -n 2 err)"

# A run that is finished stays what it is: its digest, its numbers, its optimiser.
# shellcheck disable=SC2086 # words
first=$("$lockstep" $run --save finished --verbose 0 2>/dev/null)
cp -r finished untouched
# shellcheck disable=SC2086 # words
again=$("$lockstep" $run --save finished --verbose 0 --resume 2>err) || complain "finished: $(cat err)"
for name in digest steps loss val_loss accuracy; do
    json=$first want=$(field $name)
    json=$again got=$(field $name)
    if [ $name = digest ] || [ $name = steps ]; then [ "$got" = "$want" ]; else [ "${got:0:6}" = "${want:0:6}" ]; fi ||
        complain "finished, $name: $got, not $want"
done
if [ -f finished/model.keras ]; then
    # With its slots it goes on as one that nobody resumed.
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" ${run/$here\/normalised.json/finished} --steps 3 --verbose 0 2>err) || complain "from finished: $(cat err)"
    [ "$(field steps)" = 3 ] || complain "steps of a model that was trained before: $json"
    from=$(field digest)
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" ${run/$here\/normalised.json/untouched} --steps 3 --verbose 0 2>/dev/null)
    [ "$(field digest)" = "$from" ] || complain "model.keras of a finished run that was resumed has lost something: $json"
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" ${run/$here\/normalised.json/finished} --steps 3 --verbose 0 --save further 2>err) ||
        complain "--steps and --save of a trained model: $(cat err)"
    [ "$(field steps)" = 3 ] || complain "--steps and --save of a trained model: $json"
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" ${run/$here\/normalised.json/finished} --steps 5 --verbose 0 --save further --resume 2>err) ||
        complain "resumed: $(cat err)"
    [ "$(field steps)" = 5 ] || complain "--steps, --save and --resume of a trained model: $json"
fi

# Other settings than those the run was begun with are refused; what changes no bits is not.
refused() { # words of the message, then options
    local pattern=$1
    shift
    # shellcheck disable=SC2086 # words
    ends 2 "$pattern: finished was started with" $run --save finished --resume "$@"
}
run=${run/--batch 32 / }
refused '--batch 16' --batch 16
run="$run --batch 32"
refused '--seed 3' --seed 3
refused '--lanes 4' --lanes 4
refused '--validation-split 0.5' --validation-split 0.5
refused '--data mnist' --data mnist
# shellcheck disable=SC2086 # words
ends 2 '--rows 600: finished was started with --rows 640, and can only be resumed with it' \
    ${run/--rows 640/--rows 600} --save finished --resume
# shellcheck disable=SC2086 # words
ends 2 'model mlp: finished was started with model ' ${run/$here\/normalised.json/mlp} --save finished --resume
# shellcheck disable=SC2086 # words
ends 0 '"steps": 80' $run --save finished --resume --threads 1 --replicas 2

# Ctrl-C: an endless run is stopped when it has begun, and would go on.
begun() {
    for _ in $(seq 200); do
        grep -q 'Epoch 2/' err && break
        sleep 0.05
    done
}
interrupt() { # signal, then options; the exit status is that of the command, its standard error is in err
    local signal=$1 pid
    shift
    : >err # of the run before
    # Not with &: what bash starts in the background does not get SIGINT.
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
        "$lockstep" "$@" >out 2>err &
    pid=$!
    begun
    kill -"$signal" $pid
    wait $pid
}
if command -v python3 >/dev/null; then
    for signal in INT HUP TERM; do
        rm -rf stopped
        # shellcheck disable=SC2086 # words
        interrupt $signal ${run/--epochs 4/--epochs 100000} --save stopped
        status=$?
        [ $status -eq 0 ] || complain "SIG$signal: exit status $status: $(tail -n 3 err)"
        grep -qE "^lockstep: stopped at epoch [0-9]+, step [0-9]+; resume with: lockstep train .* --save stopped --resume$" err ||
            complain "SIG$signal: does not say how to go on: $(tail -n 3 err)"
        ls stopped/backup/backup-*.index >list 2>&1 || complain "SIG$signal: nothing was saved"
    done
    json=$(cat out)
    steps=$(field steps)
    # shellcheck disable=SC2086 # words
    json=$("$lockstep" ${run/--epochs 4/--epochs 100000} --save stopped --resume --steps $((steps + 5)) 2>/dev/null)
    [ "$(field steps)" = $((steps + 5)) ] || complain "after SIGTERM at step $steps: $json"

    # What is ignored when the command begins stays ignored.
    : >err # of the run before: begun() would find its epochs there, and the signal would come before it is ignored
    # shellcheck disable=SC2086 # words
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])' \
        "$lockstep" ${run/--epochs 4/--epochs 100000} --save ignored >out 2>err &
    pid=$!
    begun
    kill -HUP $pid
    sleep 0.3
    kill -TERM $pid || complain "SIGHUP that is ignored ends training: $(tail -n 3 err)"
    wait $pid || complain "SIGHUP that is ignored, then SIGTERM: $(tail -n 3 err)"

    # Without --save a folder is made for it.
    # shellcheck disable=SC2086 # words
    interrupt INT ${run/--epochs 4/--epochs 100000} || complain "without --save: failed"
    grep -q -- '--save normalised-run --resume$' err || complain "without --save: $(tail -n 3 err)"
    ls normalised-run/backup/backup-*.index >list 2>&1 || complain "without --save: nothing was saved"
fi

# Killed at any moment, on any number of replicas, it goes on from what it kept last, and ends with the same bits and the same
# history. The newest backup that is damaged is warned about.
# shellcheck disable=SC2086 # words
json=$("$lockstep" ${run/--epochs 4/--epochs 40} --save unkilled 2>/dev/null) || complain "unkilled: failed"
want=$(field digest)
counts=(1 2 4 8)
kills=0
for cycle in $(seq 60); do
    # shellcheck disable=SC2086 # words
    "$lockstep" ${run/--epochs 4/--epochs 40} --save killed --resume --save-every 3 --replicas ${counts[cycle % 4]} >out 2>err &
    pid=$!
    sleep 0.$((RANDOM % 2))$((RANDOM % 10))
    [ $cycle -gt 12 ] || kill -9 $pid 2>/dev/null
    if wait $pid 2>/dev/null; then break; fi
    kills=$((kills + 1))
    if [ $kills -eq 5 ] && [ "$(ls killed/backup/*.index 2>/dev/null | wc -l)" -eq 2 ]; then
        newest=$(ls -v killed/backup/*.index | tail -n 1)
        truncate -s 100 "${newest%.index}.data-00000-of-00001"
    fi
done
json=$(cat out)
[ "$(field digest)" = "$want" ] || complain "killed $kills times: $json; not killed: $want: $(cat err)"
cmp unkilled/history.csv killed/history.csv || complain "killed $kills times: $(diff unkilled/history.csv killed/history.csv)"
[ "$(find killed/backup -name '*.tmp' | wc -l)" -eq 0 ] && [ "$(find killed/backup -name '*.index' | wc -l)" -le 2 ] ||
    complain "killed: $(ls killed/backup)"
ends 2 '--save-every 0s: it should be a number of steps, as 100, or of seconds, as 5s' train mlp --save x --save-every 0s
ends 2 '--save-every 5m: it should be' train mlp --save x --save-every 5m
ends 2 '--save-every N sets how often --save DIR backs up training; give both' train mlp --save-every 5s

# Where there is nothing, training begins; without --resume it begins anew.
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save new --resume --steps 3 2>err) || complain "nothing to resume: failed"
grep -q 'new: there is no run to resume' err || complain "nothing to resume: $(cat err)"
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save new --steps 3 2>/dev/null)
[ "$(field steps)" = 3 ] || complain "begun anew: $json"
# A wrong word does not cost what was kept; files that are not ours stay; two runs do not share a folder.
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save kept --steps 3 2>/dev/null) || complain "kept: failed"
echo thesis >kept/backup/thesis.tex
ends 3 'there is no data nosuch' train mlp --data nosuch --save kept
ls kept/backup/backup-*.index >list 2>&1 || complain "a wrong word removed the backups"
# shellcheck disable=SC2086 # words
json=$("$lockstep" $run --save kept --steps 3 2>/dev/null) || complain "kept, anew: failed"
[ -f kept/backup/thesis.tex ] || complain "a file that is not ours was removed"
exec 7<kept
flock -x 7
ends 3 'another run saves there' train mlp --save kept
exec 7<&-
exit $bad
