#!/bin/bash
# runs.sh BUILD: the folder of --save stores how the run was made: it is resumed, evaluated, used for predictions, converted and
# inspected without repeating options.
source "$(dirname "$0")/check.bash"

table() {
    awk 'BEGIN {
        srand(3)
        print "a;b;kind"
        for (i = 0; i < 200; i++) printf "%.3f;%.3f;%s\n", i % 2 + rand(), cos(i), i % 2 ? "cat" : "dog"
    }'
}
table >pets.csv
about=(--data pets.csv --label kind --text-labels --delimiter ';' --scale 2 --validation-split 0.2)
says() { grep -qE -- "$1" err || complain "$2: should say $1: $(cat err)"; }
digest_of() { # arguments of train
    json=$("$lockstep" train "$@" --json --verbose 0 2>err) || complain "train $*: $(cat err)"
    field digest
}
whole=$(digest_of mlp "${about[@]}" --batch 16 --optimizer sgd --epochs 6 --save whole)

# ---- what was saved, and where ----
ends 0 '^saved in told: (model.keras|ckpt.index), history.csv, history.svg, run.json, backup$' \
    train mlp --rows 64 --epochs 1 --save told
"$lockstep" train mlp --rows 64 --epochs 1 --save told --verbose 0 >out 2>err
[ ! -s out ] && [ ! -s err ] || complain "--verbose 0 talks: $(cat out err)"

# ---- to go on, nothing has to be said again ----
begin() { # DIR: half of it
    rm -rf "$1"
    "$lockstep" train mlp "${about[@]}" --batch 16 --optimizer sgd --epochs 6 --steps 25 --save "$1" --verbose 0 2>err ||
        complain "$1: $(cat err)"
}
begin run
[ "$(digest_of --save run --resume --epochs 6)" = "$whole" ] || complain "train --save run --resume: $json"
begin run
[ "$(digest_of run --resume --epochs 6 --replicas 2)" = "$whole" ] || complain "train run --resume: $json"
begin run
[ "$(digest_of mlp --save run --resume --epochs 6)" = "$whole" ] || complain "train mlp --save run --resume without the data: $json"
begin run
[ "$(digest_of run --save ./run --resume --epochs 6)" = "$whole" ] || complain "train run --save ./run --resume: $json"
begin run # how long it is, too
ends 0 'nothing left to do, 25 steps are done' train run --resume
digest_of run --resume --epochs 6 >/dev/null
ends 0 'nothing left to do, 60 steps are done' train --save run --resume
# What is said again must agree.
for other in '--batch 8' '--label b' '--scale 3' '--data digits' '--optimizer adam' '--loss mean_squared_error'; do
    # shellcheck disable=SC2086 # words
    ends 2 "$other: run was started with" train --save run --resume $other
done
ends 2 'model basic: run was started with model mlp' train basic --save run --resume
# A record of another model says nothing of this one.
mkdir others && sed 's/"batch": "16"/"batch": "8"/' run/run.json >others/run.json
ends 0 '"steps": 2' train basic --rows 128 --epochs 1 --save others --resume --json
ends 2 'the form is: lockstep train MODEL' train
ends 2 'the form is: lockstep train MODEL' train --resume
mkdir bare
mkfifo bare/run.json # nobody waits for it
ends 2 'bare has no run.json to resume from' train --save bare --resume
ends 2 '--resume resumes the run that --save DIR saved; give both' train bare --resume

# ---- data that is another one now ----
begin run
touch -d '2 days ago' pets.csv # the same values
[ "$(digest_of run --resume --epochs 6)" = "$whole" ] || complain "pets.csv was only touched: $json"
changed() { # what was done
    # the same options, written again
    ends 3 'pets.csv: its values or their order have changed' \
        train mlp "${about[@]}" --batch 16 --optimizer sgd --epochs 7 --save run --resume
    intended='if the change is intended, start a new run: without --resume'
    ends 3 "pets.csv: its values or their order have changed since run was started.* $intended" train run --resume --epochs 7
    grep -q . err || complain "$1 goes on"
    table >pets.csv
}
(head -n 1 pets.csv && tail -n +2 pets.csv | tac) >turned && mv turned pets.csv && changed "another order"
sed -i '50s/^[0-9.]*/0.125/' pets.csv && changed "another value"
ends 0 '"steps": 70' train run --resume --epochs 7 --json
mkdir -p pictures/a pictures/b
"$lockstep" train mlp --rows 64 --epochs 1 --plot pictures/a/1.png --verbose 0
for i in 2 3 4; do cp pictures/a/1.png pictures/a/$i.png && cp pictures/a/1.png pictures/b/$i.png; done
"$lockstep" train mlp --data pictures --image-size 8x8x1 --epochs 1 --save painted --verbose 0 2>err ||
    complain "pictures: $(cat err)"
mv pictures/b/4.png pictures/b/5.png
ends 3 'pictures: its values or their order have changed' train painted --resume --epochs 2
mv pictures/b/5.png pictures/b/4.png
ends 0 '"steps": 2' train painted --resume --epochs 2 --json

# ---- text of any bytes in JSON, and back ----
name=$'n\xe9t.json'
printf '{"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 2]}},
    {"class_name": "Dense", "config": {"name": "d", "units": 2}}]}}' >"$name"
"$lockstep" train "$name" "${about[@]}" --epochs 1 --save bytes --json --verbose 0 >out 2>err || complain "bytes: $(cat err)"
ends 0 '"steps": 9' train --save bytes --resume --json --epochs 3
if command -v python3 >/dev/null; then
    python3 -c 'import json
for file in "out", "bytes/run.json": json.loads(open(file, "rb").read().decode())' ||
    complain "no valid JSON: $(cat out bytes/run.json)"
fi

# ---- options about other kinds of files are refused before a file is read ----
head -c 3000000 /dev/zero | tr '\0' '1' >endless.csv
ends 2 '--features is for TFRecord; endless.csv is CSV' train mlp --data endless.csv --features a:u8
ends 0 'standard output is not one: progress is a line per epoch' doctor
! grep -q 'GPU .*was not found' out || grep -q 'GPU .*`make cuda` builds it' out ||
    complain "doctor: no word on make cuda: $(grep GPU out)"
ends 3 'pets.csv: rows of data; `lockstep data inspect pets.csv`' inspect pets.csv

# ---- measured and asked on the rows it was measured with ----
[ -f run/model.keras ] || exit $bad
kept=$(tail -n 1 whole/history.csv | cut -d, -f4 | tr -d '\r')
for model in whole whole/model.keras; do
    ends 0 '^40 rows: loss' evaluate $model
    says '^lockstep: whole: using the last 0.2 of pets.csv, from its run.json$' "evaluate $model"
    json=$("$lockstep" evaluate $model --json --verbose 0 2>err)
    [ ! -s err ] || complain "evaluate $model --verbose 0 talks: $(cat err)"
    awk -v a="$(field accuracy)" -v b="$kept" 'BEGIN { exit !(a - b < 1e-6 && b - a < 1e-6) }' ||
        complain "evaluate $model: $json, but val_accuracy was $kept"
done
ends 0 '^class,output_0,output_1$' predict whole
[ "$(wc -l <out)" -eq 41 ] || complain "predict whole: $(wc -l <out) lines"
says 'whole: using the last 0.2 of pets.csv, from its run.json$' "predict whole"
# Of data that is typed all rows; read as it was where it is the same; with the same scale in any case.
ends 0 '^200 rows: loss' evaluate whole --data pets.csv
cp out all
tr ';' ',' <pets.csv >commas.csv
ends 0 '^200 rows: loss' evaluate whole --data commas.csv --label kind --text-labels
[ "$(tail -n 1 out)" = "$(tail -n 1 all)" ] || complain "other data is scaled otherwise: $(tail -n 1 out), $(tail -n 1 all)"
# Nothing is known: drawn digits, which is said; and refused where they cannot be meant.
"$lockstep" train mlp --rows 128 --epochs 1 --save digits --verbose 0
mkdir away && cp digits/model.keras away/other.keras && cp whole/model.keras away/pets.keras
ends 0 '^64 rows: loss' evaluate away/other.keras --rows 64
says 'away/other.keras does not record its training data, and no --data is given: using drawn digits$' "evaluate other.keras"
ends 3 'away/pets.keras takes rows of \[2\], and its data is not recorded; give --data D' evaluate away/pets.keras
ends 3 'away/pets.keras takes rows of \[2\], and its data is not recorded; give --data D' predict away/pets.keras
# Rows that have the shape of digits are no reason to take those.
mkdir -p squares/a squares/b
for i in 1 2 3; do cp pictures/a/1.png squares/a/$i.png && cp pictures/a/1.png squares/b/$i.png; done
"$lockstep" train mlp --data squares --image-size 28x28x1 --epochs 1 --save square --verbose 0 2>err ||
    complain "squares: $(cat err)"
ends 0 '^6 rows: loss' evaluate square
ends 0 '' predict square
[ "$(wc -l <out)" -eq 7 ] || complain "predict square: $(($(wc -l <out) - 1)) rows, not the 6 of squares"
# With --validation, on that.
head -n 51 pets.csv >few.csv
"$lockstep" train mlp --data pets.csv --label kind --text-labels --delimiter ';' \
    --validation few.csv --epochs 1 --save held --verbose 0
ends 0 '^50 rows: loss' evaluate held
ends 0 'accuracy' train whole --epochs 1 # trained further, on its data
says 'whole: using .*pets.csv, from its run.json' "train whole"

# ---- converted and inspected ----
ends 0 'o.keras: written from run/model.keras' convert run o.keras
cmp -s <(unzip -p run/model.keras model.weights.h5 2>/dev/null) <(unzip -p o.keras model.weights.h5 2>/dev/null) ||
    complain "convert run: other weights"
ends 0 '^run: a run of lockstep train$' inspect run
for part in '^data +pets.csv$' '^scale +2$' '^optimizer +sgd$' '^run/model.keras: Keras model$' \
    '^run/backup: a folder of checkpoints$' '^resume_steps +70$'; do
    grep -qE "$part" out || complain "inspect run: no $part: $(head -n 60 out)"
done
"$lockstep" train fashion --rows 64 --epochs 1 --save fashion --verbose 0
ends 0 'optimizer/vars/10 ' inspect fashion/model.keras
[ "$(grep -oE 'optimizer/vars/[0-9]+' out | xargs)" = "$(grep -oE 'optimizer/vars/[0-9]+' out | sort -V | xargs)" ] ||
    complain "vars/10 comes before vars/2: $(grep vars out)"
if command -v python3 >/dev/null; then
    "$lockstep" inspect run --json | python3 -c 'import json, sys
o = json.loads(sys.stdin.read())
assert o["file"] == "run" and o["kind"] and o["settings"]["data"] == "pets.csv", o
assert o["model"]["layers"] and o["backup"]["checkpoints"], o' ||
        complain "inspect run --json"
fi
exit $bad
