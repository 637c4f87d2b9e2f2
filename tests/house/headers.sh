#!/bin/bash
# Every public header compiles alone, without a warning, as C11 with gcc and clang and as C++17, with those that are installed.
cd "$(dirname "$0")/../.." || exit 1
bad=0
strict="-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only"

for header in include/lockstep.h include/lockstep/*.h; do
    [ -f "$header" ] || continue
    name=${header#include/}
    for compiler in gcc clang cc; do
        command -v $compiler >/dev/null || continue
        echo "#include <$name>" | $compiler -x c -std=c11 $strict - || { echo "$name: $compiler -std=c11"; bad=1; }
    done
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null || continue
        # clang++ without a C++ standard library is no compiler for this
        echo '#include <stddef.h>' | $compiler -x c++ -std=c++17 -fsyntax-only - 2>/dev/null || continue
        echo "#include <$name>" | $compiler -x c++ -std=c++17 $strict - || { echo "$name: $compiler -std=c++17"; bad=1; }
    done
done
exit $bad
