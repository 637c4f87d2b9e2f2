#!/bin/bash
# startup.sh BUILD: nothing is done that is not needed. One step of `basic` takes at most 150 ms, the list of devices 10 ms; here
# three times as much is allowed, and the best of some tries counts, because other tests run at the same time.
source "$(dirname "$0")/check.bash"
sanitized && exit 77

best() { # milliseconds; tries until it is fast enough, at most 20 times
    local limit=$1 least=1000000 before after
    shift
    for _ in $(seq 20); do
        before=$(date +%s%N)
        "$@" >/dev/null 2>&1 || return 1
        after=$(date +%s%N)
        [ $(((after - before) / 1000000)) -lt $least ] && least=$(((after - before) / 1000000))
        [ $least -lt "$limit" ] && break
    done
    echo $least
}

step=$(best 150 "$lockstep" train basic --steps 1) || complain "train failed"
[ "$step" -lt 450 ] || complain "lockstep train basic --steps 1 takes $step ms"
devices=$(best 10 "$lockstep" devices) || complain "devices failed"
[ "$devices" -lt 30 ] || complain "lockstep devices takes $devices ms"
echo "one step $step ms, devices $devices ms"

# Installed: the command finds its library when the folder is moved, and both stay below 5 MiB.
cmake --install "$build" --prefix "$temp/first" --strip >/dev/null && mv first prefix
prefix/bin/lockstep --version >/dev/null || complain "the installed command does not run"
size=$(du -kcL prefix/bin/lockstep prefix/lib*/*/liblockstep.so prefix/lib*/liblockstep.so 2>/dev/null | tail -n 1 | cut -f1)
[ "$size" -lt 5120 ] || complain "library and command have $size KiB"
[ -f prefix/share/man/man1/lockstep-train.1 ] && [ -f prefix/share/bash-completion/completions/lockstep ] ||
    complain "manual page or completion is not installed"
exit $bad
