#!/bin/bash
# docs/environment.md has a table of the environment variables that the library reads, and it has no others; the rest of the
# document has all that tests, benches and scripts read, except those that a test sets for its own child.
cd "$(dirname "$0")/../.." || exit 1
document=docs/environment.md
bad=0

complain() { # what differs, the difference
    [ -z "$2" ] && return
    echo "$1:"
    echo "$2"
    bad=1
}

in_code() { tests/house/code -s "$@" | grep -ohE '"LOCKSTEP_[A-Z0-9_]+"' | tr -d '"'; }
in_scripts() { grep -rIhoE --exclude=house.sh '\$\{?LOCKSTEP_[A-Z0-9_]+' tools .ci Makefile tests | tr -d '${'; }
names() { grep -oE 'LOCKSTEP_[A-Z0-9_]+' | sort -u; }

of_library=$(sed '/^The build reads/,$d' $document | grep -oE '^\| `LOCKSTEP_[A-Z0-9_]+`' | names)
complain "$document (<) and src/ (>) differ" "$(diff <(echo "$of_library") <(in_code src | names))"

for_children='^LOCKSTEP_(TELL|BITS)$' # tests/unit/settings.c, tests/step/bits.c
complain "not in $document" "$({ in_code tests bench cli helper examples; in_scripts; } | names | grep -vE "$for_children" |
    comm -23 - <(names <$document))"
complain "in $document, but no test and no script reads it" "$(sed '1,/^The build reads/d' $document | names |
    comm -23 - <({ in_code src tests bench; in_scripts; } | names))"
exit $bad
