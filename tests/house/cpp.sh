#!/bin/bash
# lockstep.hpp compiles without a warning and works: examples/cpp.cpp, with all installed C++20 compilers.
build=$1
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 bad=0
strict="-std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Iinclude"
if ldd "$build/liblockstep.so" | grep -qE 'lib(asan|tsan|ubsan)'; then
    echo "skipped: built with a sanitizer, and programs of other compilers are not linked with it"
    exit 77
fi
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    echo 'int main() {}' >"$work/try.cpp"
    $compiler -std=c++20 "$work/try.cpp" -o "$work/try" 2>/dev/null || continue
    tried=$((tried + 1))
    if ! $compiler $strict -Werror examples/cpp.cpp -L"$build" -llockstep -Wl,-rpath,"$build" -o "$work/cpp"; then
        bad=1
        continue
    fi
    "$work/cpp" >"$work/out" 2>/dev/null || { echo "$compiler: examples/cpp.cpp failed:"; cat "$work/out"; bad=1; }
    grep -q "units is -1" "$work/out" || { echo "$compiler: the refused layer was not told"; bad=1; }
done
# The header changes no warning of a program that asks for that, and has none of its own. In any other program only calls with
# options that were left out are silent.
cat >"$work/warned.cpp" <<'CODE'
#include <lockstep.hpp>
struct pair { int first, second; };
lk_shape one() { return lk::shape(1); }
lk_strategy *strategy() { return lk::mirrored_strategy({.cpu_devices = 2}); }
int unused(int argument) { pair p = {1}; return p.second; }
CODE
warnings() { g++ $strict -fsyntax-only "$@" "$work/warned.cpp" 2>&1 | grep -E 'warning: ' | sort -u; }
expect() { # WARNINGS LINES-AND-WORDS...: each is among them, and all are in the program
    local all=$1
    shift
    for one in "$@"; do grep -q "warned.cpp:$one" <<<"$all" || { echo "g++: no warning $one"; bad=1; }; done
    grep -v "^$work/warned.cpp" <<<"$all" && { echo "g++: warnings within the header"; bad=1; }
}
if command -v g++ >/dev/null && g++ -std=c++20 -x c++ -fsyntax-only /dev/null 2>/dev/null; then
    expect "$(warnings -DLOCKSTEP_KEEP_WARNINGS)" '4:.*missing initializer' '5:.*unused parameter' '5:.*missing initializer'
    expect "$(warnings)" '5:.*unused parameter'
    warnings | grep 'missing initializer' && { echo "g++: options that were left out are reported"; bad=1; }
fi
[ $tried -gt 0 ] || { echo "skipped: no C++20 compiler was found"; exit 77; }
exit $bad
