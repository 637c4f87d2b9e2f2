#!/bin/bash
# devices.sh BUILD: few files know of GPUs. Those outside of src/device/, src/kernel/gpu/ and src/plan/card/ that name lki_on_host,
# LKI_DEVICE_GPU or lki_gpu_..., or call a function of GPUs, are listed and counted. What another file wants of a device is an
# entry of lki_device_ops (src/device/device.h), or a property of a tensor.
build=${1:?usage: devices.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 77; }
most=8
objects=$build/CMakeFiles/lockstep_objects.dir

symbols() { # of type $1, in the objects of these folders of src/
    local type=$1
    shift
    find "${@/#/$objects/src/}" -name '*.o' 2>/dev/null | xargs -r nm -g -P 2>/dev/null | awk -v type="$type" '$2 ~ type { print $1 }' | sort -u
}

calls() { # files whose objects want what those of GPUs define
    local defined
    defined=$(symbols '^[TDBR]$' device/gpu kernel/gpu plan/card)
    [ -n "$defined" ] || { echo "no object of the library was found in the build folder" >&2; return 1; }
    find src -name '*.c' | grep -vE '^src/(device|kernel/gpu|plan/card)/' | while read -r file; do
        [ -f "$objects/$file.o" ] && nm -u -P "$objects/$file.o" | cut -d' ' -f1 | grep -qxFf <(echo "$defined") && echo "$file"
    done
}

names() { grep -rlE '\<(lki_on_host|LKI_DEVICE_GPU|lki_gpu_[a-z_]+)\>' src --include='*.[ch]' --include='*.inc' | grep -vE '^src/(device|kernel/gpu|plan/card)/'; }

called=$(calls) || exit 1
found=$(printf '%s\n' "$called" "$(names)" | grep . | sort -u)
count=$(grep -c . <<<"$found")
[ "$count" -le "$most" ] && exit 0
echo "$count files know of GPUs, and $most may:"
echo "$found"
exit 1
