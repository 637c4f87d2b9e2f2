#!/bin/bash
# help.sh BUILD: every command has help, completion, and a manual page with exactly its options.
source "$(dirname "$0")/check.bash"
man=$here/../../docs/man
commands="train evaluate predict summary convert inspect devices data plot bench doctor"

ends 0 '^lockstep [0-9]+\.[0-9]+\.[0-9]+$' --version
ends 0 'train *train a model' --help
ends 0 'train *train a model' help
for command in $commands; do
    ends 0 "^lockstep $command" help "$command"
    ends 0 "^lockstep $command" "$command" --help
    ends 0 "^lockstep $command" "$command" -h
    grep -q "lockstep.-$command" "$man/lockstep.1" || complain "lockstep.1 does not name $command"
    page=$(sed 's/\\-/-/g' "$man/lockstep-$command.1") || complain "no manual page of $command"
    # Options of all commands are explained in the page of train; pages of others at least name theirs.
    told=$(sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' <<<"$page" | grep -E '^\.B[IR]? ?--' | grep -oE -- '(^| |")--[a-z-]+' |
        tr -d ' "' | sort -u)
    taken=$(sed -nE 's/^  (--[a-z-]+).*/\1/p' out | sort -u)
    [ "$told" = "$taken" ] ||
        complain "lockstep-$command.1 (<) and lockstep $command --help (>): $(diff <(echo "$told") <(echo "$taken"))"
done
[ -z "$("$lockstep" 2>/dev/null)" ] || complain "without a command nothing belongs on standard output"
"$lockstep" 2>/dev/null
[ $? -eq 2 ] || complain "without a command the exit status should be 2"

if command -v groff >/dev/null; then
    for page in "$man"/*.1; do
        said=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
        [ -z "$said" ] || complain "$page: $said"
    done
fi

# ---- completion ----
source "$here/../../cli/lockstep.bash"
offers() { # word to complete last, then what should be offered
    local want=$1 i
    shift
    COMP_WORDS=("$lockstep" "$@")
    COMP_CWORD=$(($# > 0 ? $# : 0))
    COMPREPLY=()
    _lockstep 2>/dev/null
    for i in "${COMPREPLY[@]}"; do [ "$i" = "$want" ] && return; done
    complain "completion of lockstep $*: ${COMPREPLY[*]}; no $want"
}
touch net.keras rows.csv other.txt
offers train tr
offers basic train b
offers net.keras train n
offers --epochs train basic --ep
offers digits train basic --data d
offers rows.csv train basic --data r
offers fashion-mnist data fetch f
offers inspect data i
offers inspect ins
offers other.txt inspect o
offers net.keras convert a.npz b.keras --model n
offers CPU:0 train basic --devices ""
offers adam train basic --optimizer a
exit $bad
