#!/bin/bash
# digest.sh BUILD: exactly the same weights and optimiser slots for any number of replicas and threads.
source "$(dirname "$0")/check.bash"

same() { # steps, model
    local first= n
    for n in 1 2 4 8; do
        json=$("$lockstep" train "$2" --steps "$1" --replicas $n --json --verbose 0) || complain "$2 on $n replicas: failed"
        [ "$(field replicas)" = $n ] && [ "$(field steps)" = "$1" ] || complain "$2 on $n replicas: $json"
        [[ $(field digest) =~ ^[0-9a-f]{64}$ ]] || complain "$2 on $n replicas: no digest in $json"
        [ "$(field digest)" = "${first:=$(field digest)}" ] ||
            complain "$2 on $n replicas has digest $(field digest); on one $first"
    done
    json=$("$lockstep" train "$2" --steps "$1" --threads 1 --json --verbose 0)
    [ "$(field digest)" = "$first" ] || complain "$2 on one thread has another digest"
    json=$("$lockstep" train "$2" --steps "$1" --seed 7 --json --verbose 0)
    [ "$(field digest)" != "$first" ] || complain "$2 with another seed has the same digest"
}

same 5 basic
same 3 fashion
same 5 "$here/normalised.json"
json=$("$lockstep" train basic --steps 5 --devices CPU:0 --json --verbose 0)
[ "$(field replicas)" = 1 ] || complain "--devices CPU:0: $json"
exit $bad
