#!/bin/bash
# inspect.sh BUILD: every kind of file is detected by its contents and described, and damage is found.
source "$(dirname "$0")/check.bash"

"$lockstep" train mlp --rows 256 --epochs 1 --save run --tensorboard logs --plot curve.png --verbose 0 >/dev/null 2>&1 ||
    complain "train failed"
json_of() { # file: its object is valid JSON
    ends 0 '"kind": "' inspect "$1" --json
    [ "$(wc -l <out)" -eq 1 ] || complain "inspect $1 --json: more than one line"
    json=$(cat out)
    command -v python3 >/dev/null || return
    python3 -c 'import json, sys
o = json.loads(sys.stdin.read())
assert o["file"] and o["kind"], o
for name in o.get("total", {}):
    assert name in ("values", "bytes") or len(o[name]) == o["total"][name], name' <out || complain "inspect $1 --json: $(cat out)"
}

# ---- what training leaves ----
cp curve.png picture # names say nothing
ends 0 '^width +[0-9]+' inspect picture
json_of picture
cp logs/train/events* log
ends 0 'epoch_loss +scalar +[0-9]+ value' inspect log
json_of log
if has_keras; then
    cp run/model.keras model
    ends 0 '^optimizer +Adam' inspect model
    grep -qE '^  dense +Dense +units' out || complain "no layers: $(cat out)"
    grep -qE '^  layers/dense/vars/0 +f32 +\[784, ' out || complain "no weights: $(cat out)"
    json_of model
    "$lockstep" convert model weights.safetensors >/dev/null 2>&1 && mv weights.safetensors weights
    ends 0 '^weights: safetensors' inspect weights
    grep -qE '^  [0-9]+ arrays, [0-9,]+ values, [0-9,]+ bytes$' out || complain "no totals: $(cat out)"
    json_of weights
    for form in npz ckpt weights.h5 h5; do
        "$lockstep" convert model "all.$form" >/dev/null 2>err || complain "convert: $(cat err)"
        json_of "all.$form"
    done
    ends 0 'TensorFlow checkpoint' inspect all.ckpt
    grep -qE '^lanes +8$' out && grep -qE '^device +CPU$' out &&
        grep -qE '^precision +f32$' out && grep -qE '^kernel_version +[0-9]' out ||
            complain "no note on lanes: $(head out)"
    ends 0 'TensorFlow checkpoint' inspect all.ckpt.index
    ends 0 'a model as before Keras 3' inspect all.h5
fi

# ---- a run that was interrupted: where it goes on ----
"$lockstep" train mlp --rows 25600 --epochs 50 --batch 16 --save kept --save-every 5 --verbose 0 >/dev/null 2>&1 &
pid=$!
for _ in $(seq 100); do ls kept/backup/*.index >/dev/null 2>&1 && break || sleep 0.1; done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
ends 0 'a folder of checkpoints' inspect kept
grep -qE '^resume_steps +[0-9]' out && grep -qE '^resume_epoch +[0-9]' out ||
    complain "no word on where it goes on: $(head -n 20 out)"
json_of kept/backup

# ---- small ones by hand ----
printf '\0\0\10\1\0\0\0\3abc' >idx
ends 0 '^idx: IDX' inspect idx
gzip -c idx >packed
ends 0 '^packed: IDX' inspect packed
dense='{"class_name": "Dense", "config": {"name": "d", "units": 3}}'
printf '{"class_name": "Sequential", "config": {"name": "s", "layers": [%s]}}' "$dense" >net
ends 0 'JSON of a Keras model' inspect net
grep -qE '^  d +Dense +units 3$' out || complain "no layer: $(cat out)"
printf '\76\0\0\0\0\0\0\0{"\\u001b[31m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}x' >odd
ends 0 '\?\[31m' inspect odd # nothing that a terminal would follow
json_of odd

# ---- what is wrong, and where ----
ends 3 'none: No such file' inspect none
: >nothing
ends 3 'nothing: it is empty' inspect nothing
echo 'some text' >text
ends 3 'text: unknown kind of file: it begins with 73 6f 6d 65' inspect text
mkdir hollow
ends 3 'hollow: a folder without a checkpoint' inspect hollow
head -c 200 curve.png >cut.png
ends 3 'cut.png: ' inspect cut.png
head -c 60 log >cut
ends 3 'cut: the record at byte' inspect cut
cp odd odd.safetensors
printf 'y' >>odd.safetensors
ends 3 'odd.safetensors: the last array ends at offset 1; there are 2 bytes' inspect odd.safetensors
if has_keras; then
    head -c 1000 all.npz >cut.npz
    ends 3 'cut.npz' inspect cut.npz
    size=$(stat -c %s all.ckpt.data-00000-of-00001)
    printf '\377' | dd of=all.ckpt.data-00000-of-00001 bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
    ends 3 'CRC|checksum' inspect all.ckpt
fi
ends 2 'the form is: lockstep inspect FILE' inspect
exit $bad
