#!/bin/bash
# Sources are formatted by clang-format (.clang-format), version 14: other versions format some lines differently. With --mend this
# script formats them: make format. With --there its exit status says whether there is such a clang-format.
cd "$(dirname "$0")/../.." || exit 1
format=
for program in clang-format clang-format-14; do
    $program --version 2>/dev/null | grep -q ' version 14\.' && format=$program && break
done
[ "$1" = --there ] && { [ -n "$format" ]; exit; }
if [ -z "$format" ]; then
    other=$(clang-format --version 2>/dev/null) || other="no clang-format at all"
    [ "$1" = --mend ] && { echo "nothing was formatted: that takes clang-format 14, and here is $other" >&2; exit 1; }
    echo "skipped: there is no clang-format 14, but $other"
    exit 77
fi

# Tables, whose columns it would take apart: the lists of ops and of slots; products in arguments of macros, which it takes for
# pointers; and data that a script beside them makes.
tables='src/(op/ops|kernel/kernels|kernel/expressions)\.inc|tests/layer/[a-z]*_(cases|configs)\.inc'

sources() {
    find src include cli helper bench tests examples -type f | grep -E '\.(c|h|hpp|cpp|inc|cu|cc)$' | grep -vxE "$tables" | sort
}
[ "$1" = --mend ] && { sources | xargs -P 2 -n 40 $format -i; exit; }
found=$(sources | xargs -P 2 -n 40 $format --dry-run -Werror 2>&1 | grep -E '^[^ ]+:[0-9]+:[0-9]+: ')
[ -z "$found" ] && exit 0
head -n 40 <<<"$found"
echo "make format makes them so: $(cut -d: -f1 <<<"$found" | sort -u | tr '\n' ' ')"
exit 1
