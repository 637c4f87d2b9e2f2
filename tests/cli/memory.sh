#!/bin/bash
# memory.sh BUILD: an epoch over all drawn digits, validation included, stays below 64 MiB: rows are kept packed, and nothing else
# is large. A summary makes no weights, so one of 2^32 weights needs neither a second nor 100 MiB.
source "$(dirname "$0")/check.bash"
sanitized && exit 77

for replicas in 1 2; do
    json=$("$lockstep" train basic --epochs 1 --replicas $replicas --json --verbose 0) ||
        complain "train on $replicas replicas failed"
    peak=$(field peak_rss_mib)
    [ "$(field steps)" = 938 ] && [ "${peak%.*}" -lt 64 ] ||
        complain "an epoch on $replicas replicas took ${peak:-?} MiB; at most 64 are allowed: $json"
    echo "$replicas replicas: $peak MiB"
done

cat >large.json <<'END'
{"module": "keras", "class_name": "Sequential", "config": {"name": "large", "layers": [
    {"module": "keras.layers", "class_name": "InputLayer", "config": {
        "batch_shape": [null, 65536], "dtype": "float32", "name": "in"}},
    {"module": "keras.layers", "class_name": "Dense", "config": {"name": "wide", "units": 65536, "use_bias": false}}]}}
END
(ulimit -v 102400 && timeout 1 "$lockstep" summary large.json) >out 2>err && grep -q 'Total params: 4,294,967,296 (16.00 GB)' out ||
    complain "the summary of 2^32 weights needs more than 1 s or 100 MiB: $(tail -n 3 out err)"
exit $bad
