#!/bin/bash
# What only one place of src/ may do: print (core/log.c), ask the system for memory (core/memory.c), open files (core/open.c; cli/files.c for the
# command), format numbers (core/number.c); and what none may: end the process.
cd "$(dirname "$0")/../.." || exit 1
bad=0

only_in() { # file, what it is, pattern
    local found
    found=$(grep -rnE "(^|[^_a-zA-Z0-9.>])($3) *\(" "${1%%/*}" --include='*.[ch]' --include='*.inc' | grep -vF "$1:" | grep -vE ':[0-9]+: *(/?\*|//)')
    [ -z "$found" ] && return
    echo "$2 belongs in $1 and nowhere else:"
    echo "$found"
    bad=1
}

only_in src/core/log.c "printing" 'printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|perror'
only_in src/core/memory.c "memory from the system" 'malloc|calloc|realloc|aligned_alloc|posix_memalign|free|strdup|mmap'
only_in src/core/open.c "opening files" 'open|open64|openat|creat|fopen|freopen|mkstemp|tmpfile'
only_in cli/files.c "opening files" 'open|open64|openat|creat|fopen|freopen|mkstemp|tmpfile'
only_in "helper/(no file)" "opening files" 'open|open64|openat|creat|fopen|freopen|mkstemp|tmpfile'
only_in "src/(no file)" "ending the process" 'abort|exit|_exit|_Exit|quick_exit'
only_in src/core/number.c "formatting, which depends on the program's locale otherwise," 'vsnprintf|vsprintf|vasprintf|asprintf|setlocale'

# A number with a fraction is formatted by lki_format() (or what ends there), never by snprintf(): calls up to their semicolon. The command sets no locale.
found=$(for file in $(grep -rlE '[^_a-z]sn?printf\(' src --include='*.[ch]' --include='*.inc'); do
    tr '\n' ' ' <"$file" | grep -oE '[^_a-z]sn?printf\([^;]*;' | grep -E '%[-+ #0-9.*]*l?[aefgAEFG]' | sed "s|^|$file: |"
done)
[ -z "$found" ] || { echo "numbers are formatted by lki_format() of src/core/number.c:"; echo "$found"; bad=1; }
found=$(grep -nE '\<(setlocale|uselocale)\>' cli/*.[ch])
[ -z "$found" ] || { echo "the command sets no locale: its numbers have a point"; echo "$found"; bad=1; }

# A machine that stores the high byte first is refused when it is compiled for.
compiles_for() { echo '#include "core/base.h"' | ${CC:-cc} -std=c11 -fsyntax-only -w -U__BYTE_ORDER__ -D__BYTE_ORDER__="$1" -Iinclude -Isrc -x c - 2>/dev/null; }
compiles_for __ORDER_LITTLE_ENDIAN__ || { echo "core/base.h does not compile for a little-endian machine"; bad=1; }
compiles_for __ORDER_BIG_ENDIAN__ && { echo "core/base.h compiles for a big-endian machine"; bad=1; }
exit $bad
