#!/bin/bash
# usage.sh BUILD: for wrong command lines the exit status is 2, and the line says what would be right.
source "$(dirname "$0")/check.bash"

ends 2 'no command trian; is `lockstep train` meant' trian
ends 2 'no command xyzzy; `lockstep --help` lists them' xyzzy
ends 2 'no command nothing' help nothing
ends 2 'lockstep train MODEL' train
ends 2 'no model basick; is basic meant' train basick
ends 2 'no model xyzzy; it should be basic, fashion, mlp' train xyzzy
ends 2 'no option --epoch; is --epochs meant' train basic --epoch 3
ends 2 'no option --xyzzy; `lockstep train --help` lists them' train basic --xyzzy
ends 2 'no option -e; options begin with two dashes' train basic -e 3
ends 2 '"other" is one word too many' train basic other
ends 2 'evaluate: there is no option --epochs' evaluate net.keras --epochs 3
ends 2 '--epochs 0: it should be an integer from 1 to 1000000' train basic --epochs 0
ends 2 '--epochs x: it should be an integer' train basic --epochs x
ends 2 '--epochs 1.5: it should be an integer' train basic --epochs=1.5
ends 2 '--epochs -1: it should be an integer' train basic --epochs -1
ends 2 '--batch 1e99: it should be an integer' train basic --batch 1e99
ends 2 '--batch 0x10: it should be an integer' train basic --batch 0x10
ends 2 '--learning-rate 0: it should be a number above 0' train basic --learning-rate 0
ends 2 '--learning-rate nan: it should be' train basic --learning-rate nan
ends 2 '--validation-split 1: it should be a number above 0 and up to' train basic --validation-split 1
ends 2 '--epochs wants a value' train basic --epochs
ends 2 '--epochs wants a value' train basic --epochs --json
ends 2 '--json takes no value' train basic --json=yes
ends 2 '--epochs is given twice' train basic --epochs 1 --epochs 2
ends 2 'give --replicas or --devices' train basic --replicas 2 --devices CPU:0
ends 2 '--replicas 16: a batch is split into 8 lanes' train basic --replicas 16
ends 2 'no device .*GPU:7' train basic --devices GPU:7
ends 2 'power of two' train basic --lanes 3
ends 2 'no optimiser "xyzzy"; there are' train basic --optimizer xyzzy
ends 2 'no loss "xyzzy"; there are' train basic --loss xyzzy
ends 2 'no metric "xyzzy"; there are' train basic --metrics accuracy,xyzzy
ends 2 '--metrics ,: names no metric' train mlp --rows 64 --metrics ,
ends 2 '--devices ,: names no device' train mlp --rows 64 --devices ,
ends 2 '--precision half: it must be f32, tf32 or bf16' train mlp --rows 64 --precision half
ends 2 '--plot curves.txt: it should end in .svg or .png' train mlp --plot curves.txt
ends 2 '--label is for CSV; digits is a data set of its own' train mlp --label x
ends 2 '--image-size is for folders of pictures; digits is' train mlp --image-size 8x8
ends 2 'the form is: lockstep doctor \[options\]' doctor now
ends 2 '--resume resumes the run that --save DIR saved' train basic --resume
ends 2 'give --validation or --validation-split' train basic --validation digits --validation-split 0.1
ends 2 'basic has no trained weights' evaluate basic
ends 2 'basic has no trained weights' predict basic
ends 2 'predict: --out p.txt: it should end in' predict net.keras --out p.txt
ends 2 'plot: h.txt: it should end in .svg or .png' plot history.csv h.txt
ends 2 'plot: the form is' plot history.csv
ends 2 'it should be `data list`' data show
ends 2 'no data set xyzzy' data fetch xyzzy
printf '1,2\n3,4\n' >t.csv
ends 2 '--features is for TFRecord; t.csv is CSV' train mlp --data t.csv --no-header --features a:u8
ends 2 '--image-size is for folders of pictures; t.csv is CSV' data inspect t.csv --no-header --image-size 8x8
ends 2 '--delimiter ab: it should be one character' train mlp --data t.csv --delimiter ab
exit $bad
