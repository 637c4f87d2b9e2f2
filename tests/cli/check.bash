# What the tests of the command share: sourced with the build folder as $1. The test is then in a new folder, which is removed when
# it ends.
build=$(realpath "${1:?usage: $(basename "$0") BUILD}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lockstep=$build/cli/lockstep
temp=$(mktemp -d)
trap '[ $BASHPID -ne $$ ] || rm -rf "$temp"' EXIT # a child that is killed before it becomes another program has this trap too
cd "$temp" || exit 1
data=${LOCKSTEP_DATA:-} # real data, if there is some
unset LOCKSTEP_DATA LOCKSTEP_VERBOSE LOCKSTEP_LANES LOCKSTEP_SEED LOCKSTEP_CPU_DEVICES
export XDG_CACHE_HOME=$temp/cache
bad=0

sanitized() { grep -q '^LK_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; }
has_keras() { "$lockstep" doctor 2>/dev/null | grep -q '^Keras files *ok'; }

complain() {
    echo "$@"
    bad=1
}

# ends CODE PATTERN ARGUMENT...: lockstep ends with this code. A failure is told by one line on standard error, "lockstep: ..." that
# matches the pattern; of a success standard output matches it.
ends() {
    local code=$1 pattern=$2 status
    shift 2
    "$lockstep" "$@" >out 2>err
    status=$?
    [ $status -eq "$code" ] || complain "lockstep $*: exit status $status, not $code: $(tail -n 3 err)"
    if [ "$code" -eq 0 ]; then
        [ -z "$pattern" ] || grep -qE -- "$pattern" out || complain "lockstep $*: does not print $pattern: $(tail -n 3 out)"
    else
        [ "$(wc -l <err)" -eq 1 ] && grep -qE -- "^lockstep: .*$pattern" err ||
            complain "lockstep $*: should tell one line with $pattern: $(cat err)"
    fi
}

# field NAME: of the JSON object in $json, without quotes.
field() { sed -nE "s/.*\"$1\": \"?([^\",}]*).*/\1/p" <<<"$json"; }
