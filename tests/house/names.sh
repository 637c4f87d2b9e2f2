#!/bin/bash
# One name, one thing. A struct, enum, union or typedef named lk_ or lki_ is defined in one file alone. A bare one may stand in
# several files, as statics do, but not in two headers: somebody will include both.
#
# A definition has a brace behind its name, or is a typedef that says more than `typedef struct x x`. Two in one file are branches
# of an #if, as lk_switch for C and for C++. Twins for two sets of instructions (vec_avx2.h, vec_avx512.h) have the same names on
# purpose.
cd "$(dirname "$0")/../.." || exit 1

find src include cli helper -name '*.[ch]' -o -name '*.inc' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cc' | sort | xargs awk '
    function defined(name, twin) {
        if (name !~ /^lki?_/ && FILENAME !~ /\.h(pp)?$/) return
        twin = FILENAME
        sub(/_avx(2|512)\./, ".", twin)
        if (!(name in home)) { home[name] = twin; place[name] = FILENAME ":" FNR }
        if (home[name] == twin || (name, twin) in told) return
        printf "%s:%d: %s is defined in %s too\n", FILENAME, FNR, name, place[name]
        told[name, twin] = bad = 1
    }
    function type_of(text, word) { # typedef ...; on one line
        gsub(/ +/, " ", text)
        split(text, word, /[ ;]/)
        if (text ~ /^typedef (struct|union|enum) [A-Za-z_0-9]+ [A-Za-z_0-9]+;/ && word[3] == word[4]) return
        if (text !~ /\(\*/) sub(/(\(.*|(\[[^]]*\])*);.*/, "", text) # a type, an array of it, a function
        else { sub(/^[^(]*\(\*/, "", text); sub(/\).*/, "", text) } # a pointer to a function
        sub(/.*[ *]/, "", text)
        defined(text)
    }
    FNR == 1 { opened = 0; begun = "" }
    { gsub(/\/\*[^*]*\*\//, ""); sub(/^template <.*> (struct|class) /, "struct ") }
    match($0, /^(typedef )?(struct|union|enum|class) [A-Za-z_0-9]+( :[^{;()]*)? \{/) {
        name = substr($0, 1, RLENGTH)
        sub(/^(typedef )?(struct|union|enum|class) /, "", name)
        sub(/ .*/, "", name)
        defined(name)
    }
    begun != "" { begun = begun " " $0; if (/;/) { type_of(begun); begun = "" }; next }
    /^typedef [^{]*$/ { if (/;/) type_of($0); else begun = $0 }
    /^typedef .*\{/ { opened = !/\}/ }
    opened && /^\} *[A-Za-z_0-9]+;/ { name = $0; gsub(/[} ;]/, "", name); defined(name) }
    /^\}/ { opened = 0 }
    END { exit bad }'
