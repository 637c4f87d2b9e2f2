#!/bin/bash
# losses.sh BUILD: without --loss, the loss is derived from the kind of each output of the model and from all labels, and is printed
# with its reason.
source "$(dirname "$0")/check.bash"

# ---- models as JSON of Keras, and data ----
layer() { # class, name, more of its config
    printf '{"class_name": "%s", "config": {"name": "%s"%s}}' "$1" "$2" "${3:+, $3}"
}
input() { printf '{"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, %s]}}' "$1"; }
dense() { layer Dense "$1" "\"units\": $2, \"activation\": \"$3\""; } # name, units, activation
in_a_row() {                                                          # file, layers
    local IFS=,
    printf '{"class_name": "Sequential", "config": {"name": "s", "layers": [%s]}}' "${*:2}" >"$1"
}
node() { # layer, names of what goes in
    local in= name from
    name=$(sed -E 's/.*"config": \{"name": "([a-z0-9]*)".*/\1/' <<<"$1")
    for from in "${@:2}"; do
        in="$in, {\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"$from\", 0, 0]}}"
    done
    in=${in#, }
    [ $# -lt 3 ] || in="[$in]"
    printf '%s, "name": "%s", "inbound_nodes": [%s]}' "${1%\}}" "$name" "${in:+{\"args\": [$in], \"kwargs\": {\}\}}"
}
graph() { # file, names of the outputs, nodes
    local IFS=, out=
    for name in $2; do out="$out, [\"$name\", 0, 0]"; done
    printf '{"class_name": "Functional", "config": {"name": "g", "layers": [%s], "input_layers": [["x", 0, 0]], ' "${*:3}" >"$1"
    printf '"output_layers": [%s]}}' "${out#, }" >>"$1"
}
rows() { # label
    awk -v label="$1" '
        function label_of(i) {
            if (label == "age") return 20 + i % 50
            if (label == "half") return i % 2 / 2
            if (label == "float") return i % 2 ".0"
            return label + i % 2 * (label < 0 ? 2 : 1)
        }
        BEGIN {
            srand(1)
            print "a,b,c,y"
            for (i = 0; i < 60; i++) printf "%.3f,%.3f,%.3f,%s\n", rand(), rand(), rand(), label_of(i)
        }'
}
rows 0 >binary.csv
rows 1 >two.csv
rows -1 >signs.csv
rows age >ages.csv
rows half >halves.csv
rows float >floats.csv
awk 'BEGIN {
    srand(2)
    print "a,b,c,y"
    for (i = 0; i < 60; i++) printf "%.3f,%.3f,%.3f,%d\n", rand(), rand(), rand(), i % 3
}' >classes.csv

chosen() { # what is said, model, data, options
    local pattern=$1
    shift
    ends 0 "^loss$pattern" train "$1" --data "$2" --epochs 1 "${@:3}"
}

# ---- one number out: by the labels, all of them ----
in_a_row linear.json "$(input 3)" "$(dense d 1 linear)"
in_a_row sigmoid.json "$(input 3)" "$(dense d 1 sigmoid)"
in_a_row relu.json "$(input 3)" "$(dense d 1 relu)"
in_a_row pictures.json "$(input '28, 28, 1')" "$(layer Flatten f)" "$(dense d 1 linear)"
chosen ': binary_crossentropy of logits, because the labels of all 60 rows are 0 or 1$' linear.json binary.csv
chosen ': binary_crossentropy of logits, because the labels of all 60 rows are 0 or 1$' linear.json floats.csv
chosen ': binary_crossentropy of probabilities, because the labels of all 60 rows are 0 or 1$' sigmoid.json binary.csv
chosen ': mean_squared_error, because the labels are not all 0 or 1: row 1, counted from 0, has 2$' linear.json two.csv
chosen ': mean_squared_error, because the labels are not all 0 or 1: row 0, counted from 0, has -1$' linear.json signs.csv
chosen ': mean_squared_error, because .* has 20$' linear.json ages.csv
chosen ': mean_squared_error, because .* has 0.5$' linear.json halves.csv
chosen ': mean_squared_error, because the output is neither a sigmoid nor a logit$' relu.json binary.csv
chosen ': mean_squared_error, because the labels are not all 0 or 1: there are 10 classes$' pictures.json digits --rows 64
for data in two signs ages halves; do
    ends 3 "$data.csv: labels should be 0 and 1, because sigmoid.json ends in a sigmoid; .* choose another loss with --loss" \
        train sigmoid.json --data $data.csv
    chosen ': mean_squared_error$' sigmoid.json $data.csv --loss mean_squared_error
done
# The last row decides as the first one does.
sed '$s/[^,]*$/7/' binary.csv >last.csv
chosen ': mean_squared_error, because the labels are not all 0 or 1: row 59, counted from 0, has 7$' linear.json last.csv
ends 3 'last.csv: labels should be 0 and 1' train sigmoid.json --data last.csv
# Where the loss takes logits, 0 is the border for the accuracy.
json=$("$lockstep" train linear.json --data binary.csv --epochs 1 --json --verbose 0 --save logits 2>err) ||
    complain "logits: $(cat err)"
[ ! -s err ] && [ "$(wc -l <<<"$json")" -eq 1 ] || complain "--json --verbose 0 says more than one line: $json, $(cat err)"
"$lockstep" train linear.json --data binary.csv --epochs 1 --json >out 2>err
[ "$(wc -l <out)" -eq 1 ] && grep -q '^loss: ' err || complain "--json: the loss is not told on standard error: $(cat out)"
if [ -f logits/model.keras ] && command -v python3 >/dev/null; then
    "$lockstep" predict logits --data binary.csv >said.csv 2>err || complain "predict: $(cat err)"
    json=$("$lockstep" evaluate logits --data binary.csv --json --verbose 0)
    python3 - "$(field accuracy)" <<'PY' || complain "the accuracy of logits: $json"
import sys
said = [float(line) for line in open("said.csv").read().split()[1:]]
want = [int(line.split(",")[-1]) for line in open("binary.csv").read().split()[1:]]
right = sum((x > 0) == (y == 1) for x, y in zip(said, want)) / len(want)
assert abs(right - float(sys.argv[1])) < 1e-6, right
PY
fi

# ---- from logits: by what gives the output its values, not by the last word about an activation ----
softmax=', because the labels are integers'
in_a_row linear3.json "$(input 3)" "$(dense d 3 linear)"
in_a_row after.json "$(input 3)" "$(dense d 3 softmax)" "$(layer Activation a '"activation": "linear"')"
in_a_row dropped.json "$(input 3)" "$(dense d 3 softmax)" "$(layer Dropout drop '"rate": 0.1')" \
    "$(layer Reshape r '"target_shape": [3]')"
in_a_row as_layer.json "$(input 3)" "$(dense d 3 linear)" "$(layer Softmax s)"
in_a_row inside.json "$(input 3)" "$(dense e 4 linear)" \
    '{"class_name": "Sequential", "config": {"name": "t", "layers": [
        {"class_name": "InputLayer", "config": {"name": "y", "batch_shape": [null, 4]}},
        {"class_name": "Dense", "config": {"name": "f", "units": 3, "activation": "softmax"}}]}}'
in_a_row hidden.json "$(input 3)" "$(dense d 3 softmax)" "$(layer Rescaling z '"scale": 2.0, "offset": 0.0')"
chosen ": sparse_categorical_crossentropy of logits$softmax" linear3.json classes.csv
chosen ": sparse_categorical_crossentropy of logits$softmax" hidden.json classes.csv
for model in after dropped as_layer inside; do
    chosen ": sparse_categorical_crossentropy of probabilities$softmax" $model.json classes.csv
done
chosen ': sparse_categorical_crossentropy of probabilities$' after.json classes.csv --loss sparse_categorical_crossentropy
# A gate is a softmax, what it mixes are logits.
graph experts.json mixed "$(node "$(input 3)")" "$(node "$(dense e 6 linear)" x)" "$(node "$(dense gate 2 softmax)" x)" \
    "$(node "$(layer Reshape r '"target_shape": [2, 3]')" e)" "$(node "$(layer Dot mixed '"axes": [1, 1]')" gate r)"
chosen ": sparse_categorical_crossentropy of logits$softmax" experts.json classes.csv

# ---- several outputs: each has its own loss and its own metric ----
if command -v python3 >/dev/null; then
    python3 - <<'PY'
import array, random, zipfile
random.seed(1)
def npy(shape, values, code="f", kind="<f4"):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + array.array(code, values).tobytes()
def whole(shape, values): return npy(shape, values, "q", "<i8")
def npz(name, **arrays):
    with zipfile.ZipFile(name, "w") as z:
        for key in arrays: z.writestr(key + ".npy", arrays[key])
x = npy((64, 3), [random.random() for i in range(192)])
for name, data in {"x": x, "p": whole((64,), [i % 3 for i in range(64)]), "q": whole((64,), [i % 2 for i in range(64)]),
                   "z": npy((64,), [random.random() for i in range(64)])}.items():
    open(name + ".npy", "wb").write(data)
npz("many.npz", x=x, y=whole((64, 3), [random.randrange(2) for i in range(192)]))
npz("hot.npz", x=x, y=whole((64, 3), [int(i % 3 == i // 3 % 3) for i in range(192)]))
npz("counts.npz", x=x, y=whole((64, 3), [random.randrange(9) for i in range(192)]))
npz("zero.npz", x=npy((16, 0), []), y=whole((16,), [i % 2 for i in range(16)]))
PY
    graph ab.json p,q "$(node "$(input 3)")" "$(node "$(dense p 3 softmax)" x)" "$(node "$(dense q 1 sigmoid)" x)"
    graph ba.json q,p "$(node "$(input 3)")" "$(node "$(dense q 1 sigmoid)" x)" "$(node "$(dense p 3 softmax)" x)"
    graph pz.json p,z "$(node "$(input 3)")" "$(node "$(dense p 3 softmax)" x)" "$(node "$(dense z 1 linear)" x)"
    chosen ' of output 0: sparse_categorical_crossentropy of probabilities' ab.json x.npy,p.npy,q.npy
    grep -q '^loss of output 1: binary_crossentropy of probabilities' out || complain "ab: $(grep ^loss out)"
    grep -q 'p_accuracy: .*q_accuracy: ' out || complain "ab: metrics: $(tail -n 2 out)"
    chosen ' of output 0: binary_crossentropy of probabilities' ba.json x.npy,q.npy,p.npy
    grep -q '^loss of output 1: sparse_categorical_crossentropy of probabilities' out || complain "ba: $(grep ^loss out)"
    chosen ' of output 1: mean_squared_error' pz.json x.npy,p.npy,z.npy
    grep -q 'p_accuracy: .*z_mean_absolute_error: ' out || complain "pz: metrics: $(tail -n 2 out)"
    ends 3 'labels should be 0 and 1, because ab.json ends in a sigmoid' train ab.json --data x.npy,p.npy,z.npy

    # ---- as many labels as outputs ----
    in_a_row sigmoid3.json "$(input 3)" "$(dense d 3 sigmoid)"
    in_a_row softmax3.json "$(input 3)" "$(dense d 3 softmax)"
    chosen ': binary_crossentropy of probabilities, because the labels of all 64 rows' sigmoid3.json many.npz
    chosen ': categorical_crossentropy of probabilities' softmax3.json hot.npz
    chosen ': categorical_crossentropy of logits, because one label of each row is 1' linear3.json hot.npz
    chosen ': mean_squared_error, because the labels are not all 0 or 1' linear3.json counts.npz
    ends 3 'labels should be from 0 to 1, because softmax3.json ends in a softmax' train softmax3.json --data counts.npz
    ends 3 'labels should be 0 and 1, because sigmoid3.json' train sigmoid3.json --data counts.npz

    # ---- rows without values ----
    in_a_row nothing.json "$(input 0)" "$(layer Activation a '"activation": "relu"')"
    ends 3 'zero.npz: labels are i64 \[\], and the output of nothing.json is \[0\] for a row' \
        train nothing.json --data zero.npz --steps 1
    ends 3 'nothing.json takes rows of \[0\], which have no values' bench nothing.json
fi
in_a_row large.json "$(input 1099511627776)" "$(layer Activation a '"activation": "relu"')"
ends 4 'not enough memory for 512 rows of \[1099511627776\]' bench large.json
for size in '2147483648, 2147483648' 9007199254740991; do
    in_a_row large.json "$(input "$size")" "$(layer Activation a '"activation": "relu"')"
    ends 3 "rows of \[$size\]: that is too large" bench large.json
done

# ---- what is said is what is done: by the file that is kept ----
kept() { # classes of the losses, "+" where they take logits; model, data, options
    local want=$1 got
    shift
    "$lockstep" train "$1" --data "$2" --epochs 1 --save kept --verbose 0 "${@:3}" 2>err ||
        { complain "train $*: $(cat err)"; return; }
    got=$(python3 - <<'PY'
import json, zipfile
loss = json.loads(zipfile.ZipFile("kept/model.keras").read("config.json"))["compile_config"]["loss"]
loss = [loss] if isinstance(loss, dict) and "class_name" in loss else list(loss.values()) if isinstance(loss, dict) else loss
print(" ".join(l["class_name"] + ("+" if l["config"].get("from_logits") else "") for l in loss))
PY
)
    [ "$got" = "$want" ] || complain "train $*: the loss that is kept is $got, not $want"
    rm -rf kept
}
if has_keras && command -v python3 >/dev/null; then
    kept BinaryCrossentropy+ linear.json binary.csv
    kept BinaryCrossentropy sigmoid.json binary.csv
    for data in two signs ages halves; do kept MeanSquaredError linear.json $data.csv; done
    kept MeanSquaredError relu.json binary.csv
    for model in linear3 hidden experts; do kept SparseCategoricalCrossentropy+ $model.json classes.csv; done
    for model in after dropped as_layer inside; do kept SparseCategoricalCrossentropy $model.json classes.csv; done
    kept 'SparseCategoricalCrossentropy BinaryCrossentropy' ab.json x.npy,p.npy,q.npy
    kept 'SparseCategoricalCrossentropy MeanSquaredError' pz.json x.npy,p.npy,z.npy
fi

# ---- rows to measure with ----
ends 3 'ages.csv: labels should be from 0 to 1, because the loss is a binary cross-entropy; row 0' \
    train linear.json --data binary.csv --epochs 1 --validation ages.csv

# ---- what a model was compiled with stays, unless others are asked for ----
if has_keras; then
    "$lockstep" train linear.json --data ages.csv --epochs 1 --loss huber --optimizer sgd \
        --learning-rate 0.01 --save own --verbose 0 2>err ||
        complain "huber: $(cat err)"
    ends 0 'mean_squared_error: ' train own/model.keras --data ages.csv --epochs 1 --metrics mean_squared_error --save again
    ! grep -q '^loss' out || complain "another loss is taken than the model's own: $(grep ^loss out)"
    ends 0 '^loss +Huber' inspect again/model.keras
    grep -q '^optimizer *SGD' out || complain "another optimiser is taken than the model's own: $(head -n 12 out)"
fi

# ---- a file that names a loss or an optimiser that there is not: nothing is trained with another one ----
if has_keras && command -v python3 >/dev/null; then
    python3 - <<'PY'
import json, zipfile
def changed(name, key, value):
    with zipfile.ZipFile("own/model.keras") as old, zipfile.ZipFile(name, "w") as new:
        for file in old.namelist():
            data = old.read(file)
            if file == "config.json":
                config = json.loads(data)
                config["compile_config"][key] = value
                data = json.dumps(config)
            new.writestr(file, data)
changed("loss.keras", "loss", "focal_of_my_own")
changed("weights.keras", "loss_weights", [1.0, 2.0])
changed("optimizer.keras", "optimizer", {"class_name": "Sophia", "config": {"learning_rate": 0.1}})
PY
    ends 3 'loss.keras: .*focal_of_my_own.*; give --loss' train loss.keras --data ages.csv
    ends 3 'optimizer.keras: .*Sophia.*; give .*--optimizer' train optimizer.keras --data ages.csv
    ends 3 'give --loss and --optimizer' train weights.keras --data ages.csv
    ends 0 'output_0' predict weights.keras --data ages.csv
    ends 0 'Total params' summary weights.keras
    ends 3 'give --optimizer' train optimizer.keras --data ages.csv --loss huber
    for file in loss optimizer; do
        ends 0 '^trained 1 step' train $file.keras --data ages.csv --epochs 1 --loss huber --optimizer sgd
        [ ! -s err ] || complain "$file.keras with both given: $(cat err)"
        ends 0 'output_0' predict $file.keras --data ages.csv
        ends 0 'Total params' summary $file.keras
        ends 0 '^60 rows: loss' evaluate $file.keras --data ages.csv
    done
fi
exit $bad
