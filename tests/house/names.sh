#!/bin/bash
# One name, one thing. A struct, enum, union or typedef named lk_ or lki_ is defined in one file only. A name without prefix may be
# in several files, like statics, but not in two headers: one file may include both.
#
# A definition is a struct, union, enum or class with a brace after its name, anywhere; a typedef that is more than `typedef struct
# x x`; a `using name =`. Two in one file are branches of an #if, as lk_switch for C and for C++. Twins for two instruction sets
# (vec_avx2.h, vec_avx512.h) have the same names intentionally. Definitions by macros are not found.
#
# Of tests and benches only headers are checked. Programs include those of their own folder and of tests/ itself only: two folders
# may have the same name without prefix.
cd "$(dirname "$0")/../.." || exit 1

tests/house/code -j src include cli helper tests bench | grep -E '^(src|include|cli|helper)/|^[^:]*\.h:' |
    grep -vE '^tests/install/' | awk '
    function folder(file) { sub(/\/[^\/]*$/, "", file); return file }
    function defined(name, twin, key) {
        if (name !~ /^lki?_/ && file !~ /\.(h|hpp|hh|cuh)$/) return
        twin = file
        sub(/_avx(2|512)\./, ".", twin)
        key = name !~ /^lki?_/ && file ~ /^(tests\/[^\/]*|bench)\// ? folder(file) " " name : name
        if (!(key in home)) { home[key] = twin; place[key] = file ":" number }
        if (home[key] == twin || (key, twin) in told) return
        printf "%s:%d: %s is defined in %s too\n", file, number, name, place[key]
        told[key, twin] = bad = 1
    }

    # After struct, union, enum or class: past attributes to its name, and past what it derives from to its brace.
    function tag(token) {
        if (parens) { parens += (token == "(") - (token == ")"); return }
        if (token == "(" && state == "attribute") { parens = 1; state = "keyword"; return }
        if (state == "derives" && token !~ /^[{;]$/) return
        if (state == "keyword" || state == "attribute") {
            if (token ~ /^(struct|class|const|\[|\]|noreturn|nodiscard|maybe_unused)$/) return
            if (token ~ /^(__attribute__|alignas|_Alignas|__align__|__declspec)$/) { state = "attribute"; return }
            if (token ~ /^[A-Za-z_]/) { named = token; state = "named"; return }
        }
        if (state == "named" && token == "final") return
        if (state == "named" && token == ":") { state = "derives"; return }
        if ((state == "named" || state == "derives") && token == "{") defined(named)
        state = ""
    }
    # In a typedef: the name of each declarator is the first in parentheses with an asterisk, or else the last before a bracket, a
    # parenthesis, a comma or the end.
    function declarator(token) {
        if (token == "{") { braces++; has_braces = 1 }
        if (braces) { if (token == "}" && !--braces) name = ""; return }
        angles += (token == "<") - (token == ">") # arguments of a template
        if (angles || token == ">") return
        if (token == ";" || (token == "," && !depth)) {
            if (name != "" && (has_braces || name != alias)) defined(name)
            if (token == ";") in_typedef = 0
            name = ""; settled = 0
            return
        }
        if (token == "(") {
            depth++
            fresh = 1
            return
        }
        if (token == ")") { depth--; if (pointer) settled = 1; pointer = 0; return }
        if (fresh && token == "*" && !settled) { pointer = 1; name = "" }
        fresh = 0
        if (token == "[" && !depth) settled = 1
        if (token ~ /^[A-Za-z_]/ && !settled && (!depth || pointer)) {
            if (after_keyword) { alias = token; after_keyword = 0 }
            after_keyword = token ~ /^(struct|union|enum|class)$/
            name = token
        }
    }
    {
        file = $0
        sub(/:.*/, "", file)
        rest = substr($0, length(file) + 2)
        number = rest + 0
        sub(/^[0-9]*:/, "", rest)
        if (file != before) { in_typedef = braces = depth = parens = 0; state = using = ""; before = file }
        if (rest ~ /^[ \t]*#/) next
        if (!in_typedef && state == "" && rest !~ /(struct|union|enum|class|typedef|using)/) next
        at_left = rest ~ /^(using|typedef)[^A-Za-z_0-9]/
        while (match(rest, /[A-Za-z_][A-Za-z_0-9]*|[0-9][A-Za-z_0-9.]*|[^ \t]/)) {
            token = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            if (token == "typedef" && at_left) {
                in_typedef = 1
                braces = depth = angles = has_braces = settled = pointer = fresh = after_keyword = 0
                name = alias = ""
            } else if (in_typedef) declarator(token)
            if (using == "using" && token ~ /^[A-Za-z_]/) using = token
            else if (using != "") { if (token == "=" && using != "using") defined(using); using = "" }
            if (token == "using" && at_left) using = token # in a function or a struct it is of that alone
            if (state != "") tag(token)
            else if (token ~ /^(struct|union|enum|class)$/) { state = "keyword"; parens = 0 }
        }
    }
    END { exit bad }'
