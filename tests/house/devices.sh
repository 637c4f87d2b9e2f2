#!/bin/bash
# devices.sh BUILD: few files depend on GPUs. Files outside of src/device/, src/kernel/gpu/ and src/plan/card/ that use lki_on_host,
# LKI_DEVICE_GPU or lki_gpu_..., or call a function of GPUs, are listed and counted. Other files use an entry of lki_device_ops
# (src/device/device.h), or a property of a tensor.
build=${1:?usage: devices.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 77; }
most=8
own='^src/(device|kernel/gpu|plan/card)/'

calls() { # files whose objects want what objects of GPUs define
    find src -name '*.c' -printf "$build/CMakeFiles/lockstep_objects.dir/%p.o\n" |
        xargs -r nm -A -g -P 2>/dev/null | awk -v own="$own" '
        { # object: name type value size
            sub(/.*\/lockstep_objects\.dir\//, "", $1)
            sub(/\.o:$/, "", $1)
            if ($3 == "U" && $1 !~ own) wants[$1, $2]
            else if ($3 != "U" && $1 ~ own && $1 !~ /^src\/device\/[^g]/) of_gpus[$2]
            objects++
        }
        END {
            for (pair in wants) { split(pair, p, SUBSEP); if (p[2] in of_gpus) print p[1] }
            exit !objects
        }'
}

names() {
    tests/house/code src | grep -E '\<(lki_on_host|LKI_DEVICE_GPU|lki_gpu_[a-z_]+)\>' |
    cut -d: -f1 | sort -u | grep -vE "$own"
}

called=$(calls) || { echo "no object of the library was found in the build folder"; exit 1; }
found=$(printf '%s\n' "$called" "$(names)" | grep . | sort -u)
count=$(grep -c . <<<"$found")
[ "$count" -le "$most" ] && exit 0
echo "$count files know of GPUs, and $most may:"
echo "$found"
exit 1
