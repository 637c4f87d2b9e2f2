#!/bin/bash
# convert.sh BUILD: a model is converted through all formats and comes back the same; missing parts are reported; arrays keep their
# names without a model.
source "$(dirname "$0")/check.bash"
has_keras || exit 77

"$lockstep" train mlp --rows 256 --epochs 1 --save run --verbose 0 >/dev/null 2>&1 || complain "train failed"
cp run/model.keras a.keras
"$lockstep" evaluate a.keras --rows 256 --json >want 2>/dev/null || complain "evaluate failed"
same() { # a model: measures what the first one does, and has all of it
    "$lockstep" evaluate "$1" --rows 256 --json >got 2>err || complain "evaluate $1: $(cat err)"
    [ "$(sed 's/"model": "[^"]*"//; s/"rows_per_s.*//' want)" = "$(sed 's/"model": "[^"]*"//; s/"rows_per_s.*//' got)" ] ||
        complain "$1: $(cat got), not $(cat want)"
    "$lockstep" convert "$1" "$1.npz" >/dev/null 2>err || complain "convert $1: $(cat err)"
    cmp -s "$1.npz" first.npz || complain "$1: other weights or another state of the optimiser"
}
ends 0 'first.npz: written from a.keras' convert a.keras first.npz
"$lockstep" inspect first.npz >names
grep -qE '^  dense/kernel +f32 ' names && grep -qE '^  adam/dense_kernel_momentum +f32 ' names &&
    grep -qE '^  adam/iteration +i64 +\[\]' names ||
        complain "names: $(cat names)"

# ---- one format after the other, with the model where the format has none ----
before=a.keras
for next in b.safetensors c.ckpt d.weights.h5 e.npz f.keras g.h5 h.keras; do
    "$lockstep" convert "$before" "$next" --model a.keras >out 2>err || complain "convert $before $next: $(cat err)"
    [ ! -s err ] || complain "convert $before $next: says $(cat err)"
    before=$next
done
same f.keras
same h.keras
# those with a model in them need no other
ends 0 '' convert g.h5 i.keras
same i.keras
ends 0 '' convert a.keras j.h5
ends 0 '' convert j.h5 k.keras
same k.keras
ends 0 '' convert c.ckpt.index l.keras --model a.keras
same l.keras
mkdir folder # of several the one of the highest number
ends 0 '' convert a.keras folder/ckpt-9
ends 0 '' convert a.keras folder/ckpt-10
ends 0 '' convert folder m.keras --model a.keras
same m.keras

# ---- architectures from JSON: weights go in, what it was compiled with is not there ----
unzip -p a.keras config.json >a.json 2>/dev/null
if [ -s a.json ]; then
    ends 0 '' convert b.safetensors n.keras --model a.json
    "$lockstep" evaluate n.keras --rows 256 --json >got 2>err || complain "evaluate n.keras: $(cat err)"
fi

# ---- without a model: names as they are ----
ends 0 '' convert b.safetensors plain.npz
cmp -s plain.npz first.npz || complain "safetensors to npz: not the same file"
ends 0 '' convert plain.npz plain.ckpt
ends 0 '' convert plain.ckpt plain.safetensors
cmp -s plain.safetensors b.safetensors || complain "npz, checkpoint, safetensors: not the same file"
ends 0 '' convert plain.npz plain.weights.h5
ends 0 '' convert plain.weights.h5 again.npz
cmp -s again.npz first.npz || complain "npz, HDF5, npz: not the same file"
ends 0 '' convert d.weights.h5 paths.npz
"$lockstep" inspect paths.npz | grep -q '^  layers/dense/vars/0 ' || complain "paths of HDF5 are not kept"
ends 0 '' convert paths.npz o.keras --model a.keras
"$lockstep" convert c.ckpt keys.safetensors >out 2>err || complain "checkpoint to safetensors: $(cat err)"
grep -q 'items that are not arrays' err || complain "what is left out is not said: $(cat err)"
ends 0 '' convert keys.safetensors p.keras --model a.keras

# ---- what is wrong ----
needed='which q.keras needs; give it with --model FILE, a .keras or Keras JSON file'
ends 2 "b.safetensors has weights, but no architecture, $needed" convert b.safetensors q.keras
ends 2 'should end in .keras' convert a.keras q.txt
ends 2 'the form is: lockstep convert FROM TO' convert a.keras
ends 3 'none.npz: No such file' convert none.npz q.safetensors
ends 3 'none.npz: No such file' convert none.npz q.keras --model a.keras
ends 3 'No such file' convert first.npz q.keras --model none.keras
ends 3 'No such file' convert first.npz none/q.npz
echo nothing >text
ends 3 'text: it is none of' convert text q.npz
head -c 100 b.safetensors >cut.safetensors
ends 3 'cut.safetensors: a header of' convert cut.safetensors q.npz
printf '\2\0\0\0\0\0\0\0{}' >empty.safetensors
ends 3 'there is no "dense/kernel", which should be a weight of model' convert empty.safetensors q.keras --model a.keras
[ ! -e q.npz ] && [ ! -e q.keras ] && [ ! -e q.safetensors ] || complain "something is left of what failed: $(ls q.*)"
exit $bad
