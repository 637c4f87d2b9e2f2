#!/bin/bash
# golden.sh BUILD: stored results of TensorFlow, computed on a simulated card: ops, optimisers, strategies. tools/test-cuda runs all
# of them on a real one.
build=${1:?usage: golden.sh BUILD}
[ -x "$build/tests/golden/golden" ] || exit 77
if [ -z "${LOCKSTEP_GOLDEN:-}" ]; then
    echo "LOCKSTEP_GOLDEN does not say where the stored results are" >&2
    exit 77
fi
[ -n "$(nm "$build/liblockstep.a" 2>/dev/null | grep -m1 __asan_)" ] &&
    { echo "not under a sanitizer: it would take minutes" >&2; exit 77; }
judge() { # precision, part: whole training runs of convolutions take minutes where a card is simulated
    LOCKSTEP_GPU_SIM=1 LOCKSTEP_DEVICE=GPU:0 LOCKSTEP_PRECISION=$1 \
        "$build/tests/golden/golden" "$LOCKSTEP_GOLDEN" "$2" >"$build/golden-gpu.log" 2>&1 && return
    echo "in $1:"
    grep -v ' ok ' "$build/golden-gpu.log" | tail -n 20
    exit 1
}
for part in ops/ optim/ strategy/ train/mlp; do judge f32 $part; done
for precision in tf32 bf16; do # by gradients and loss curves
    for part in ops/ train/mlp; do judge $precision $part; done
done
