#!/bin/bash
# examples.sh BUILD: code that users will copy. Every example, and every whole program of README.md and docs/, compiles as plain C11
# without a warning, with gcc and clang if they are installed, and includes only public headers; numbered examples are shorter than
# a hundred lines; the programs of the manual run.
build=${1:?usage: examples.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
bad=0
strict="-std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude"
sanitize=$(sed -n 's/^LK_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")

# Blocks of C that have a main() of their own become $temp/README_1.c, ...
for page in README.md docs/*.md; do
    awk -v base="$temp/$(basename "$page" .md)" '
        /^```c$/ { inside = 1; text = ""; next }
        /^```$/  { if (inside && text ~ /int main\(/) printf "%s", text > (base "_" ++n ".c"); inside = 0; next }
        inside   { text = text $0 "\n" }' "$page"
done

sed -i 's/lk_digits(/lk_digits(.rows = 640, /' "$temp"/*.c # enough to see that a program of the manual runs

for file in examples/*.c "$temp"/*.c; do
    [ -f "$file" ] || continue
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        $compiler $strict -fsyntax-only "$file" || { echo "$file: $compiler"; bad=1; }
    done
    foreign=$(grep -nE '^# *include *"' "$file")
    [ -z "$foreign" ] || { echo "$file: an example sees public headers only: $foreign"; bad=1; }
done

for file in examples/[0-9]*.c; do
    lines=$(wc -l <"$file")
    [ "$lines" -lt 100 ] || { echo "$file: $lines lines; one idea takes fewer than 100"; bad=1; }
done

for file in "$temp"/*.c; do
    [ -f "$file" ] || continue
    program=${file%.c}
    ${CC:-cc} $strict ${sanitize:+-fsanitize=$sanitize} "$file" -o "$program" \
        -L"$build" -llockstep -lm -Wl,-rpath,"$(realpath "$build")" &&
        (cd "$temp" && "$program") >"$program.out" || { echo "$file: does not build or run"; cat "$program.out"; bad=1; }
done
exit $bad
