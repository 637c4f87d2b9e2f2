#!/bin/bash
# Sizes that a file or a caller can choose are multiplied only by the functions of src/core/size.h; the same for sizes of requests
# for memory.
#
# The test looks for products in requests for memory (use lki_alloc_array() and similar), products that contain a size of a shape, a
# number of elements or an option of a layer (use lki_size_mul(), lki_bytes_of()), and arithmetic that is checked in place (use
# lki_size_try_mul()). Floating-point products do not wrap: an operand that is cast to double or float is not a size.
#
# src/kernel/ is exempt: kernels get shapes that lki_shape_valid() has accepted, so their elements, and every product of a tensor's
# own sizes, fit; and kernels count cells in their innermost loops.
cd "$(dirname "$0")/../.." || exit 1
bad=0

# Statements, each on one line, with products written as clang-format does: spaces around the asterisk, which a pointer has on one
# side only.
code=$(tests/house/code -j src helper cli | grep -vE '^src/(kernel/|core/size\.h)' | sed -E '
    s/\((double|float)\)[A-Za-z_>.-]+(\[[^]]*\])?/REAL/g
    s/([A-Za-z0-9_)]|\])\*([A-Za-z0-9_(])/\1 * \2/g
    s/([A-Za-z0-9_)]|\])\*=/\1 *= /g
    s/ +/ /g')

in_folders() { grep -E "^($1)/" <<<"$code"; }

found() { # what to use instead, the lines
    [ -z "$2" ] && return
    echo "use $1 of core/size.h or core/memory.h:"
    echo "$2"
    bad=1
}

# products SIZE: with an operand that is one, in parentheses or cast or not, or a sum in parentheses that begins or ends with one.
products() {
    local times=' \*=? ' sum='[A-Za-z0-9_>., +-]*' cast='(\((size_t|int64_t|uint64_t|int)\))?'
    grep -E "($1)\)*$times|($1)$sum\)+$times|$times\(*$cast\(*[A-Za-z0-9_>.-]*($1)|$times\($sum($1)"
}

arguments='\([^()]*(\([^()]*\))?[^()]*\)'
found 'lki_alloc_array()' "$(in_folders 'src|helper|cli' | grep -E '\b(lki_(alloc|zalloc|realloc|arena_alloc)|allocate)\(.* \* ' |
    sed -E 's/sizeof \* /sizeof /g' | grep -E '\b(lki_(alloc|zalloc|realloc|arena_alloc)|allocate)\([^;]* \* ')"
found 'lki_size_mul()' "$(in_folders 'src|helper|cli' |
    products "\bdim\[[^]]*\]|\blk_(dim|size)$arguments|\blki_shape_size(_from)?$arguments")"

option='\b(units|filters|height|width|heads|num_heads|key_dim|value_dim|depth_multiplier|channels|groups|input_dim|output_dim'
option+='|(stride|dilation|size)\[[^]]*\])'
found 'lki_size_mul()' "$(in_folders 'src/(layer|nn|op)' | products "$option")"

found 'lki_size_try_mul()' "$(in_folders 'src|helper|cli' | grep -E '__builtin_[a-z]+_overflow')"
exit $bad
