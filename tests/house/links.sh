#!/bin/bash
# links.sh BUILD: what the compiled files of src/ call lies in their own folder or in one before it (the file `order`). layers.sh
# sees what is included; a public header declares functions of many folders, and only the linker knows where they are.
#
# A GPU backend is linked of files in src/device/ and src/kernel/gpu/: what one of them calls is another of them, or what the library
# has by that name.
build=${1:?usage: links.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 77; }

objects() { # of the files there are: a build folder keeps those of files that are gone
    for target in objects avx2 avx512; do
        find src -name '*.c' -printf "$build/CMakeFiles/lockstep_$target.dir/%p.o\n"
    done
    find src/device src/kernel/gpu -name '*.c[uc]' -printf "$build/CMakeFiles/lockstep_sim.dir/%p.o\n"
}

objects | xargs -r nm -A -g -P 2>/dev/null | awk -v order="$(cat tests/house/order)" '
    function folder(file) { split(file, part, "/"); return part[2] }
    BEGIN { for (i = split(order, name, " "); i > 0; i--) rank[name[i]] = i }
    $2 ~ /^(lki?_|_Z.*lki?_)/ { # object: name type value size
        file = $1
        gpu = sub(/.*\/lockstep_sim\.dir\//, "", file)
        sub(/.*\/lockstep_(objects|avx2|avx512)\.dir\//, "", file)
        sub(/\.o:$/, "", file)
        seen[file] = 1
        if ($3 ~ /[WV]/) next # of C++: in every file that wants it
        if ($3 != "U") { if (gpu) backend[$2] = file; else library[$2] = file; is_code[$2] = $3 ~ /[Tti]/ }
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
        for (file in seen) count++
        if (!count) { print "no object of the library was found in the build folder"; bad = 1 }
        exit bad
    }' | sort
exit "${PIPESTATUS[2]}"
