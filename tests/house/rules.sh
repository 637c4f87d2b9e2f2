#!/bin/bash
# What only one place of src/ may do: print (core/log.c), ask the system for memory (core/memory.c), open files (core/open.c; cli/files.c for the
# command); and what none may: end the process.
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
only_in "src/(no file)" "ending the process" 'abort|exit|_exit|_Exit|quick_exit'
exit $bad
