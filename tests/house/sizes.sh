#!/bin/bash
# Sizes that a file or a caller can choose are multiplied by the functions of src/core/size.h and nowhere else; so are the bytes that are asked for.
#
# Looked for are products in requests for memory (use lki_alloc_array() and its kin) and products with a size of a shape or an option of a layer
# in them (use lki_size_mul(), lki_bytes_of()), and arithmetic that is checked in place (use lki_size_try_mul()). Floating-point products do not wrap: an operand that is cast to double or float is no size.
#
# src/kernel/ is exempt: a kernel gets shapes that lki_shape_valid() has passed, whose elements, and so every product of a tensor's own sizes,
# fit; and it counts cells in its innermost loops.
cd "$(dirname "$0")/../.." || exit 1
bad=0

lines() { # the code of src/ and helper/, without what is said in comments
    grep -rnE "$1" "${@:2}" --include='*.c' --include='*.h' --include='*.inc' | grep -vE '^[^:]*:[0-9]+: *(/\*|\*|//)' |
        grep -vE '^src/(kernel/|core/size\.h)' | sed -E 's,/\*.*\*/,,; s/\((double|float)\)[A-Za-z_>.-]+(\[[^]]*\])?/REAL/g; s/"[^"]*"/TEXT/g'
}

found() { # what to use instead, the lines
    [ -z "$2" ] && return
    echo "use $1 of core/size.h or core/memory.h:"
    echo "$2"
    bad=1
}

found 'lki_alloc_array()' "$(lines '\b(lki_(alloc|zalloc|realloc|arena_alloc)|allocate)\(' src helper |
    grep -E '(alloc|allocate)\([^;]* \* ')"

size='([A-Za-z_>.()-]*dim\[[^]]*\]|lk_dim\([^()]*\)|lki_shape_size(_from)?\([^()]*(\([^()]*\))?[^()]*\))'
found 'lki_size_mul()' "$(lines "$size" src helper | grep -E "$size (\*|\*=) | (\*|\*=) (\((size_t|int64_t|uint64_t)\))?$size")"

option='\b(units|filters|height|width|heads|num_heads|key_dim|value_dim|depth_multiplier|channels|groups|input_dim|output_dim|(stride|dilation|size)\[[^]]*\])'
found 'lki_size_mul()' "$(lines "$option" src/layer src/nn src/op | grep -E "$option (\*|\*=) | (\*|\*=) (\((size_t|int64_t)\))?[A-Za-z_>.()-]*$option")"

found 'lki_size_try_mul()' "$(lines '__builtin_[a-z]+_overflow' src helper)"
exit $bad
