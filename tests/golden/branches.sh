#!/bin/bash
# branches.sh BUILD: the comparison with stored results (golden.c) reads models whose layers say with "from" whose outputs they
# read. No stored run of TensorFlow has such a model, so branches.py computed one. Its spec is then damaged: each time the
# comparison must fail, and say why.
build=${1:?usage: branches.sh BUILD}
cd "$(dirname "$0")" || exit 1
[ -x "$build/tests/golden/golden" ] || { echo "skipped: the comparison with stored results was not built"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong=0

# The run needs no data set, but a name for their folder.
compare() { LOCKSTEP_DATA=$folder "$build/tests/golden/golden" "$1" train/; }

compare own >"$folder/log" && grep -qx '2 passed, 0 failed' "$folder/log" || { cat "$folder/log"; wrong=1; }

fails() { # WORDS REGEX REPLACEMENT: with the spec changed so, both forms of the run fail, and the first says WORDS
    rm -rf "$folder/own"
    cp -r own "$folder/own"
    sed -z -E "s/$2/$3/" own/train/branches/spec.json >"$folder/own/train/branches/spec.json"
    cmp -s {own,"$folder/own"}/train/branches/spec.json && { echo "the spec has no $2"; wrong=1; }
    compare "$folder/own" >"$folder/log" && { echo "$3: passed, and should say: $1"; wrong=1; }
    grep -qx '0 passed, 2 failed' "$folder/log" && grep -qF -- "$1" "$folder/log" && return
    echo "$3: does not say: $1"
    sed 's/^/    /' "$folder/log"
    wrong=1
}

fails 'layer sum takes the output of wrong, which is no layer before it' '"right"\n' '"wrong"\n'
fails 'layer left takes the output of both, which is no layer before it' '("relu",\s*"from": \[\s*)"row"' '\1"both"'
fails 'layer both has no inputs: "from" should be a list of names' '\[\s*"sum",\s*"row",\s*"side"\s*\]' '"sum"'
fails 'the loss of step 0' '"sum",\s*"row",\s*"side"' '"row", "sum", "side"'
fails 'two layers are named row' '"name": "tokens"' '"name": "row"'
fails 'layer 0, embedding, has no name' '"name": "tokens",' ''
fails 'no layer takes weight right/kernel' '"right"\n' '"left"\n'
exit $wrong
