#!/bin/bash
# links.sh BUILD: compiled files of src/ call only functions of their own folder or of an earlier one (the file `order`). layers.sh
# checks includes; but a public header declares functions of many folders, and only the linker knows where they are.
#
# Every source that this machine compiles has an object in the build folder; a source without one would not be checked. A GPU
# backend consists of files in src/device/ and src/kernel/gpu/: a call in one of them is to another of them, or to a function of the
# library with that name.
build=${1:?usage: links.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 77; }
bad=0

# What the configuration compiles (CMake's own list): a build folder keeps objects of files that are gone.
commands=$build/compile_commands.json
[ -f "$commands" ] || { echo "$commands is not there: the build folder is not configured"; exit 1; }
objects=$(sed -nE "s,.* -o (CMakeFiles/lockstep_(objects|avx2|avx512|sim)\.dir/src/[^ ]*) .*,$build/\1,p" "$commands")
missing=$(while read -r object; do [ -f "$object" ] || echo "$object"; done <<<"$objects" |
    sed -E 's,.*\.dir/(.*)\.o$,\1: it has no object in the build folder,' | sort -u)

# Some are not compiled here: all for instruction sets of other machines, the driver of real cards by nvcc alone, and the simulated
# ones where there is no C++ compiler.
not_here='^src/device/cuda/'
grep -q 'lockstep_avx2\.dir/' <<<"$objects" || not_here+='|^src/(kernel/cpu/|data/bytes_vec\.c)'
grep -q 'lockstep_sim\.dir/' <<<"$objects" || not_here+='|^src/(device/sim|kernel/gpu)/'
uncompiled=$(find src -name '*.c' -o -name '*.c[uc]' | grep -vE "$not_here" | sort |
    comm -23 - <(sed -E 's,.*\.dir/(.*)\.o$,\1,' <<<"$objects" | sort -u) | sed 's/$/: nothing compiles it/')
[ -z "$missing$uncompiled" ] || { printf '%s\n' "$missing" "$uncompiled" | grep .; bad=1; }

xargs -r nm -A -g -P <<<"$objects" 2>/dev/null | awk -v order="$(cat tests/house/order)" '
    function folder(file) { split(file, part, "/"); return part[2] }
    BEGIN { for (i = split(order, name, " "); i > 0; i--) rank[name[i]] = i }
    $2 ~ /^(lki?_|_Z.*lki?_)/ { # object: name type value size
        file = $1
        gpu = sub(/.*\/lockstep_sim\.dir\//, "", file)
        sub(/.*\/lockstep_(objects|avx2|avx512)\.dir\//, "", file)
        sub(/\.o:$/, "", file)
        if ($3 ~ /[WV]/) next # of C++: in every file that wants it
        if ($3 !~ /[Uwv]/) { if (gpu) backend[$2] = file; else library[$2] = file; is_code[$2] = $3 ~ /[Tti]/ }
        else if (gpu) backend_wants[file, $2]
        else library_wants[file, $2]
    }
    function look(file, symbol, home) {
        if (home == "" || rank[folder(home)] <= rank[folder(file)]) return
        printf "%s %s %s of %s, which comes after it\n", file, is_code[symbol] ? "calls" : "uses", symbol, home
        bad = 1
    }
    END {
        for (pair in library_wants) { split(pair, p, SUBSEP); look(p[1], p[2], library[p[2]]) }
        for (pair in backend_wants) { split(pair, p, SUBSEP); look(p[1], p[2], p[2] in backend ? backend[p[2]] : library[p[2]]) }
        exit bad
    }' | sort
[ "${PIPESTATUS[1]}" -eq 0 ] || bad=1
exit $bad
