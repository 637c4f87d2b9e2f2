#!/bin/bash
# symbols.sh BUILD: the shared library exports exactly what the public headers declare: lk_ names and the few lki_ ones that public
# macros call. Global names of the static library begin with lk_ or lki_.
build=${1:?usage: symbols.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
command -v nm >/dev/null || exit 77
bad=0

declared=$(for header in include/lockstep/*.h; do echo "#include <lockstep/$(basename "$header")>"; done |
    ${CC:-cc} -x c -std=c11 -E -P -Iinclude - | tr '\n' ' ' | grep -oE 'visibility\("default"\)\)\) [^;(]*\(' |
    sed 's/ *($//; s/.*[ *]//' | sort -u)
of_sanitizers='^__(asan|odr_asan|ubsan|tsan|lsan|sanitizer)'
exported=$(nm -D --defined-only "$build/liblockstep.so" | awk '{print $NF}' | sed 's/@.*//' | grep -vE "$of_sanitizers" | sort -u)
wanting=$(nm -D --undefined-only "$build/liblockstep.so" | awk '{print $NF}' | grep -E '^lki?_')
global=$(nm -g --defined-only "$build/liblockstep.a" 2>/dev/null | awk 'NF == 3 {print $3}' | grep -vE "$of_sanitizers" | sort -u)

complain() { # text, names
    [ -z "$2" ] && return
    echo "$1:"
    echo "$2" | sed 's/^/    /'
    bad=1
}

complain "exported but not declared with LK_API in a public header" "$(comm -13 <(echo "$declared") <(echo "$exported"))"
complain "declared with LK_API but not in the library" "$(comm -23 <(echo "$declared") <(echo "$exported"))"
complain "called but defined nowhere" "$wanting"
of_macros='lki_(pool|step|scope|colocate|each|runtime)_(enter|leave)|lki_each_next|lki_kw|lki_axes_given'
complain "exported, but neither lk_ nor what public macros call" "$(grep -vE "^(lk_.*|$of_macros)$" <<<"$exported")"
complain "global names outside lk_ and lki_ in the static library" "$(grep -vE '^lki?_' <<<"$global")"
exit $bad
