#!/bin/bash
# programs.sh BUILD: the programs of the documents print what the documents state: reference.c every value of the API reference;
# with LOCKSTEP_DATA basic.c the summary, the progress of its epoch and its curves, and custom_training.c its lines, where the
# accuracy restored without a strategy is that of the epoch that was saved. Without data the test counts as skipped, unless
# reference.c failed.
build=$(realpath "${1:?usage: programs.sh BUILD}")
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp" || exit 1
bad=0

skip() { # why: unless something has failed
    echo "skipped: basic and custom_training: $1"
    [ $bad -eq 0 ] && exit 77
    exit 1
}

"$build/examples/reference" >reference.out 2>reference.log || { echo "reference: failed"; cat reference.out reference.log; bad=1; }
diff - reference.out <<EXPECTED || { echo "reference: printed something else (<: should be)"; bad=1; }
[4, 6, 8, 10]
28
3.5
2 local values, the first of 4 rows
poisoned: lk_reduce: replica 0 has [4], replica 1 [2]: shapes must agree to be added element by \
element; reduce along an axis instead
63
10.5
2 local values, the first of 4 rows
PerReplica:{
  0: 3
  1: 3
}
[[8]]
MirroredVariable:{
  0: 1
  1: 1
}
EXPECTED
diff - reference.log <<EXPECTED || { echo "reference: logged something else (<: should be)"; bad=1; }
WARNING:lockstep: There are non-GPU devices in \`tf.distribute.Strategy\`, not using nccl allreduce.
INFO:lockstep: Using MirroredStrategy with devices ('/job:localhost/replica:0/task:0/device:CPU:0', \
'/job:localhost/replica:0/task:0/device:CPU:1')
EXPECTED

[ -n "${LOCKSTEP_DATA:-}" ] || skip "LOCKSTEP_DATA is not set"
# tests/dist/bits runs the same loop over some of the rows
grep -q '^LK_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" && skip "an epoch takes minutes with a sanitizer"
number='[0-9.e+-]+'
"$build/examples/basic" 1 >basic.out 2>basic.log || { echo "basic: failed"; bad=1; }
grep -q '^Number of devices: 1$' basic.out && grep -q 'Total params: 347,146' basic.out || bad=1
shown="loss: $number - accuracy: 0\.9[0-9]{3} - val_loss: $number - val_accuracy: 0\.9[0-9]{3}"
grep -qE "938/938 \[={30}\] - [0-9]+s [0-9]+(ms|us)/step - $shown\$" basic.out || bad=1
grep -q '<svg' basic.svg || { echo "basic: no curves in basic.svg"; bad=1; }
[ $bad -eq 0 ] || cat basic.out basic.log
"$build/examples/custom_training" 1 >training.out 2>training.log || { echo "custom_training: failed"; bad=1; }
shown="Loss: $number, Accuracy: $number, Test Loss: $number, Test Accuracy: $number"
[ "$(grep -cE "^Epoch 1, $shown\$" training.out)" = 1 ] || bad=1
[ "$(grep -cE "^(Number of devices: 2|ten steps, Loss: $number|one epoch, Loss: $number)\$" training.out)" = 3 ] || bad=1
tested=$(sed -n 's/^Epoch 1,.*Test Accuracy: //p' training.out)
restored=$(sed -n 's/^Accuracy after restoring the saved model without strategy: //p' training.out)
[ -n "$tested" ] && [ "$tested" = "$restored" ] || { echo "custom_training: accuracy $tested, restored $restored"; bad=1; }
[ $bad -eq 0 ] || cat training.out training.log
exit $bad
