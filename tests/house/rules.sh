#!/bin/bash
# What only one file of src/ may do: print (core/log.c), ask the system for memory (core/memory.c), open files (core/open.c;
# cli/files.c for the command), format numbers (core/number.c); and what no file may do: end the process.
cd "$(dirname "$0")/../.." || exit 1
bad=0

# A backend of GPUs is a shared object of its own (src/device/gpu/backend.h): it is handed no memory of the host's and sees no
# function of the library. So these of its files ask C++ for what they keep there; all other rules hold for them too. Kernels keep
# nothing, and no file of kernels is here.
own_memory=$(sed 's/ .*//' <<'TABLE'
src/device/sim/sim.cc           cards that are simulated have the host's memory; their threads have stacks
src/device/sim/runtime.cc       streams, graphs and kernels as the real CUDA runtime would keep them
src/device/sim/links.cc         links of simulated cards, while they are open
src/device/cuda/graph.cu        captured graphs and their variants, which have as many calls as the step has
src/device/cuda/launch.cu       how much shared memory each kernel was allowed, for ever
src/device/cuda/links.cu        links of cards, while they are open
TABLE
)

code=$(tests/house/code src cli helper)

complain() { # what is wrong, the lines
    [ -z "$2" ] && return
    echo "$1:"
    echo "$2"
    bad=1
}

only_in() { # file, what it is, pattern of what stands before the parenthesis of a call, pattern of a whole use
    local uses=":(.*[^_a-zA-Z0-9.>])?($3) *\(${4:+|:.*($4)}"
    complain "$2 belongs in $1 and nowhere else" "$(grep -E "^${1%%/*}/[^:]*:[0-9]+($uses)" <<<"$code" | grep -vF "$1:" |
        { [[ $2 = memory* ]] && grep -vFf <(sed 's/$/:/' <<<"$own_memory") || cat; })"
}

opens='open|open64|openat|creat|fopen|freopen|mkstemp|mkostemp|tmpfile' streams='\<std::(basic_)?[io]?f(stream|ilebuf)\>'
only_in src/core/log.c "printing" 'v?f?printf|v?dprintf|f?puts|f?putc|putchar|perror' \
    '\<fwrite *\([^;]*\<std(out|err)\>|\<write *\( *(1|2|STD(OUT|ERR)_FILENO) *,|\<std::(cout|cerr|clog)\>'
only_in src/core/memory.c "memory from the system" \
    '[mcv]alloc|realloc(array)?|aligned_alloc|(posix_)?memalign|free|strn?dup|getline|getdelim|open_memstream|mmap'
only_in src/core/open.c "opening files" "$opens" "$streams"
only_in cli/files.c "opening files" "$opens" "$streams"
only_in "helper/(no file)" "opening files" "$opens" "$streams"
only_in "src/(no file)" "ending the process" 'abort|exit|_exit|_Exit|quick_exit'
only_in src/core/number.c "formatting, which depends on the program's locale otherwise," \
    'vsnprintf|vsprintf|vasprintf|asprintf|setlocale'

# The same in C++, whose headers are those of src/device/cuda/, src/device/sim/ and src/kernel/gpu/.
containers='\<new +[A-Za-z_:]|\<new *\(|\<operator new\>'
containers+='|std::(vector|map|set|list|deque|string|unordered_[a-z]+|make_(unique|shared))\>'
found=$(grep -E "^src/[^:]*:[0-9]+:.*($containers)" <<<"$code")
complain "memory of a backend belongs in the files that the table of this test names" \
    "$(grep -vFf <(sed 's/$/:/' <<<"$own_memory") <<<"$found")"
for file in $own_memory; do
    grep -qF "$file:" <<<"$found" || { echo "$file: the table of this test names it, and it asks for no memory"; bad=1; }
done

# A number with a fraction is formatted by lki_format() (or what ends there), never by snprintf(). The command sets no locale.
complain "numbers are formatted by lki_format() of src/core/number.c" "$(tests/house/code -s -j src |
    grep -E '[^_a-z]sn?printf *\([^;]*%[-+ #0-9.*]*[lL]?[aefgAEFG]')"
complain "the command sets no locale: its numbers have a point" \
    "$(grep -E '^cli/[^:]*:[0-9]+:.*\<(setlocale|uselocale)\>' <<<"$code")"

# A machine that stores the high byte first is refused when it is compiled for.
compiles_for() {
    echo '#include "core/base.h"' |
        ${CC:-cc} -std=c11 -fsyntax-only -w -U__BYTE_ORDER__ -D__BYTE_ORDER__="$1" -Iinclude -Isrc -x c - 2>/dev/null
}
compiles_for __ORDER_LITTLE_ENDIAN__ || { echo "core/base.h does not compile for a little-endian machine"; bad=1; }
compiles_for __ORDER_BIG_ENDIAN__ && { echo "core/base.h compiles for a big-endian machine"; bad=1; }
exit $bad
