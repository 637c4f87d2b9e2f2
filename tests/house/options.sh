#!/bin/bash
# Options have the right meaning in every form in which people write them (options/forms.c, forms.cpp), with every installed
# compiler: without a warning with all warnings on, and also with all warnings off. A plain number for a shape is reported when the
# program runs.
build=$1
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ldd "$build/liblockstep.so" | grep -qE 'lib(asan|tsan|ubsan)'; then
    echo "skipped: built with a sanitizer, and programs of other compilers are not linked with it"
    exit 77
fi
bad=0
strict="-Wall -Wextra -Wpedantic -Wshadow -Werror"

forms() { # COMPILER FILE FLAGS: each of the forms in FILE is right
    local compiler=$1 file=$2
    shift 2
    "$compiler" "$@" -Iinclude "$file" -L"$build" -llockstep -Wl,-rpath,"$build" -o "$work/forms" ||
        { echo "$compiler $* $file: does not compile"; bad=1; return; }
    "$work/forms" >"$work/out" 2>/dev/null || { echo "$compiler $* $file:"; cat "$work/out"; bad=1; }
}

# A default that is not zero wants a type that can tell zero from nothing.
if grep -nE '^ +(int|int64_t|double|unsigned|uint64_t|size_t) +[a-z_, 0-9]+;.*default:? *[^0 ]' include/lockstep/*.h; then
    echo "these options have a default other than 0, but a plain type: use lk_integer or lk_number"
    bad=1
fi

for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    forms $compiler tests/house/options/forms.c -std=c11 $strict -O2
    forms $compiler tests/house/options/forms.c -std=gnu17 -w -DPLAIN_SHAPES
    echo "int x = 1'000;" | $compiler -x c -std=c2x -fsyntax-only - 2>/dev/null &&
        forms $compiler tests/house/options/c23.c -std=c2x $strict
done
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    echo '#include <vector>' | $compiler -x c++ -std=c++20 -fsyntax-only - 2>/dev/null || continue
    forms $compiler tests/house/options/forms.cpp -std=c++20 $strict -O2
    forms $compiler tests/house/options/forms.cpp -std=c++20
done
exit $bad
