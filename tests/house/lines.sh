#!/bin/bash
# No line of a source, a script or a build file is longer than 132 columns: characters, not bytes. They are UTF-8, and contain tabs
# only where a Makefile needs them, at the beginning of a line.
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C.UTF-8
bad=0

# Data that a script beside them makes: its next run would break lines as it likes.
made='tests/(unit/h5_files\.h|layer/[a-z]*_(cases|configs)\.inc|model/keras_values\.h)$'

complain() { # what is wrong, the lines
    [ -z "$2" ] && return
    echo "$1:"
    cut -c1-200 <<<"$2"
    bad=1
}

sources=$(find src include cli helper bench tests examples -type f | grep -E '\.(c|h|hpp|hh|cpp|cxx|inc|cu|cuh|cc)$' |
    grep -vE "^$made" | sort)
scripts=$(find tools cmake .ci Makefile CMakeLists.txt CMakePresets.json -type f
    find tests helper bench cli -type f -regextype posix-extended -regex '.*(\.(sh|bash|py|txt)|/house/(code|order))' |
        grep -v '^tests/fuzz/corpus/')

complain "longer than 132 columns" "$(xargs -r grep -nE '^.{133}' /dev/null <<<"$sources"$'\n'"$scripts" 2>&1)"
complain "not UTF-8" "$(xargs -r grep -naxv '.*' /dev/null <<<"$sources"$'\n'"$scripts")"
complain "a tab" "$(xargs -r grep -nF $'\t' /dev/null <<<"$sources"$'\n'"$(grep -vx Makefile <<<"$scripts")")"
complain "a tab within a line" "$(grep -nE $'[^\t]\t' Makefile /dev/null)"
exit $bad
