#!/bin/bash
# lockstep.hpp compiles without a warning and works: examples/cpp.cpp, with all installed C++20 compilers.
build=$1
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 bad=0
if ldd "$build/liblockstep.so" | grep -qE 'lib(asan|tsan|ubsan)'; then
    echo "skipped: built with a sanitizer, and programs of other compilers are not linked with it"
    exit 77
fi
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    echo 'int main() {}' >"$work/try.cpp"
    $compiler -std=c++20 "$work/try.cpp" -o "$work/try" 2>/dev/null || continue
    tried=$((tried + 1))
    if ! $compiler -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude examples/cpp.cpp -L"$build" -llockstep -Wl,-rpath,"$build" -o "$work/cpp"; then
        bad=1
        continue
    fi
    "$work/cpp" >"$work/out" 2>/dev/null || { echo "$compiler: examples/cpp.cpp failed:"; cat "$work/out"; bad=1; }
    grep -q "units is -1" "$work/out" || { echo "$compiler: the refused layer was not told"; bad=1; }
done
[ $tried -gt 0 ] || { echo "skipped: no C++20 compiler was found"; exit 77; }
exit $bad
