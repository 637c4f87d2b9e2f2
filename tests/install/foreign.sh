#!/bin/bash
# foreign.sh BUILD: install into an empty folder, move it, and build a foreign project against it: by pkg-config, shared and static,
# and by CMake. It is moved because an installation must not depend on where it was made.
set -eu
build=${1:?usage: foreign.sh BUILD}
here=$(cd "$(dirname "$0")" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
sanitize=$(sed -n 's/^LK_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
flags="-std=c11 -Wall -Wextra -Wpedantic -Werror ${sanitize:+-fsanitize=$sanitize}"

cmake --install "$build" --prefix "$temp/first" >/dev/null
mv "$temp/first" "$temp/prefix"
prefix=$temp/prefix

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
    ${CC:-cc} $flags "$here/app.c" -o "$temp/shared" $(pkg-config --cflags --libs lockstep)
    LD_LIBRARY_PATH=$prefix/$libdir "$temp/shared"
    ${CC:-cc} $flags "$here/app.c" -o "$temp/static" $(pkg-config --cflags lockstep) "$prefix/$libdir/liblockstep.a" \
        $(pkg-config --static --libs-only-l lockstep | sed 's/-llockstep//')
    "$temp/static"
fi

cmake -S "$here" -B "$temp/foreign" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$flags" >"$temp/log" ||
    { cat "$temp/log"; exit 1; }
cmake --build "$temp/foreign" >"$temp/log" || { cat "$temp/log"; exit 1; }
"$temp/foreign/app_lockstep"
"$temp/foreign/app_static"
