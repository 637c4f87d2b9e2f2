#!/bin/bash
# workflow.sh BUILD: train, evaluate, predict, plot, inspect: each command uses the files of earlier ones, and their numbers agree.
source "$(dirname "$0")/check.bash"

# ---- train: what is shown ----
ends 0 'Total params: 347,146' train basic --rows 640 --epochs 2 --save run --plot curves.png --tensorboard logs
grep -qE '^Epoch 2/2$' out || complain "no epochs: $(cat out)"
shown='loss: [0-9.e-]+ - accuracy: [0-9.]+ - val_loss: [0-9.]+ - val_accuracy: [0-9.]+'
grep -qE "^10/10 \[={30}\] - [0-9]+s [0-9]+[mu]?s/step - $shown\$" out ||
    complain "progress is not as Keras shows it: $(cat out)"
shares='\(step [0-9]+ %, input [0-9]+ %, .*compile [0-9]+ %\)'
grep -qE "^trained 20 steps, 1,280 rows in [0-9.]+ s: [0-9,]+ rows/s $shares, validation [0-9.]+ s\$" out ||
    complain "no line at the end: $(tail -n 1 out)"
[ ! -s err ] || complain "standard error should be empty: $(cat err)"
head -c 4 curves.png | grep -q PNG || complain "no curves in curves.png"
grep -q '<svg' run/history.svg || complain "no curves in run/history.svg"
[ "$(wc -l <run/history.csv)" -eq 3 ] || complain "run/history.csv: $(cat run/history.csv)"
ls logs/train/events.out.tfevents.* >/dev/null || complain "no events in logs/train"
ends 0 '^10/10 - ' train basic --rows 640 --epochs 1 --verbose 2
[ ! -e basic-run ] || complain "a run that was not interrupted leaves a folder"

# ---- train: the object ----
"$lockstep" train basic --rows 640 --epochs 1 --json >out 2>err || complain "--json: failed"
[ "$(wc -l <out)" -eq 1 ] || complain "--json: more than one line: $(cat out)"
json=$(cat out)
for name in model replicas lanes steps loss accuracy val_loss val_accuracy rows_per_s epoch_s start_ms peak_rss_mib digest; do
    [ -n "$(field $name)" ] && [ "$(field $name)" != null ] || complain "--json: $name is missing in $json"
done
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys
o = json.loads(sys.stdin.read())
names = "model replicas lanes steps loss accuracy val_loss val_accuracy rows_per_s epoch_s start_ms peak_rss_mib digest"
assert list(o) == names.split(), o
assert len(o["epoch_s"]) == 1 and 0 < o["epoch_s"][0] < 60, o
assert o["model"] == "basic" and o["steps"] == 10 and 0 < o["start_ms"] < 60000 and o["peak_rss_mib"] > 1, o' <out ||
    complain "--json: $json"
fi
json=$("$lockstep" train basic --steps 2 --json --verbose 0)
[ "$(field val_loss)" = null ] || complain "a run that ends within an epoch measures nothing: $json"
json=$("$lockstep" train basic --steps 2 --validation digits --rows 128 --json --verbose 0)
[ "$(field val_loss)" != null ] || complain "--validation is always measured: $json"

# ---- data of all kinds ----
awk 'BEGIN {
    print "a;b;kind"
    for (i = 0; i < 60; i++) printf "%d;%.3f;%s\n", i % 2 * 3, cos(i), i % 2 ? "cat" : "dog"
}' >words.csv
awk 'BEGIN { for (i = 0; i < 60; i++) printf "%d\t%.3f\t%.3f\n", i % 5, cos(i), i % 5 * 0.5 + 1 }' >numbers.tsv
ends 0 'val_accuracy: ' train mlp --data words.csv --label kind --text-labels --delimiter ';' --validation-split 0.2
ends 0 'loss: .* - mean_absolute_error: ' \
    train mlp --data numbers.tsv --no-header --label '#-1' --optimizer sgd --learning-rate 0.01
ends 0 '^classes +0: 30, 1: 30$' data inspect words.csv --text-labels --delimiter ';'
ends 0 '^labels +from 1 to 3$' data inspect numbers.tsv --no-header
ends 0 '^digits +60,000 rows' data list
ends 0 '^input +u8 \[28, 28(, 1)?\]$' data inspect digits --rows 100
ends 0 'nothing to fetch' data fetch digits
if [ -n "$data" ] && "$lockstep" doctor | grep -q '^libcurl *ok'; then
    LOCKSTEP_MIRROR=file://$data ends 0 "^mnist is in $XDG_CACHE_HOME/lockstep/mnist$" data fetch mnist
    ends 0 '^mnist .* in /' data list
    ends 0 '^classes +0: 5,923, 1: 6,742' data inspect mnist
    ends 0 '^rows +60,000$' data inspect "$data/mnist"
fi

# ---- devices, doctor, summary, bench ----
ends 0 '^CPU:0 +[0-9]+ core' devices
LOCKSTEP_CPU_DEVICES=3 ends 0 '^CPU:2 ' devices
ends 0 '^processor +ok' doctor
ends 0 'dense_1 \(Dense\)' summary mlp
ends 0 'batch_normalization' summary "$here/normalised.json"
sanitized || ends 0 '^ +2 +[0-9]+ +[0-9,]+ +[0-9.]+$' bench mlp --batch 128

# ---- evaluate, predict, plot ----
ends 0 '' plot run/history.csv again.svg
grep -q '<svg' again.svg || complain "plot: no curves"
ends 3 'words.csv' plot words.csv again.svg
if [ ! -f run/model.keras ]; then # no libhdf5 here: a checkpoint instead
    has_keras && complain "no run/model.keras"
    [ -f run/ckpt.index ] || complain "neither run/model.keras nor run/ckpt.index"
    exit $bad
fi
ends 0 '^640 rows: loss [0-9.]+, accuracy [0-9.]+$' evaluate run --rows 640
json=$("$lockstep" evaluate run/model.keras --rows 640 --json --verbose 0)
kept=$(tail -n 1 run/history.csv | cut -d, -f4)
awk -v a="$(field accuracy)" -v b="$kept" 'BEGIN { exit !(a - b < 1e-6 && b - a < 1e-6) }' ||
    complain "evaluate: $json, but val_accuracy was $kept"
ends 0 '^class,output_0,' predict run --rows 640
[ "$(wc -l <out)" -eq 641 ] || complain "predict: $(wc -l <out) lines"
cp out lines.csv
ends 0 '' predict run --rows 640 --out again.csv --replicas 2 --batch 50
cmp lines.csv again.csv || complain "predict: another batch and two replicas give other bits"
ends 0 '' predict run --rows 640 --out out.npy
ends 0 '^input +f32 \[10\]$' data inspect out.npy
json=$("$lockstep" train run --rows 640 --epochs 1 --json --verbose 0) || complain "a saved model does not train"
[ "$(field steps)" = 10 ] || complain "steps are those of the run, not of the model: $json"
exit $bad
