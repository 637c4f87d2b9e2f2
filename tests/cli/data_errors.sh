#!/bin/bash
# data_errors.sh BUILD: with files of every kind that are missing, cut off, damaged or do not fit the model, the exit status is 3,
# and the line names the file and what is wrong with it.
source "$(dirname "$0")/check.bash"
quick="--epochs 1 --verbose 0"

# ---- names ----
ends 3 'missing.csv: No such file' train basic --data missing.csv
ends 3 'missing.keras: No such file' train missing.keras
ends 3 'no data digit; is digits meant' train basic --data digit
ends 3 'no data xyzzy; it should be' train basic --data xyzzy
mkdir empty
echo text >notes.txt
ends 3 'empty: has neither folders of pictures' train basic --data empty
ends 3 'notes.txt: unknown kind of file' train basic --data notes.txt
ends 3 'notes.txt: it is neither a .keras file' train notes.txt
LOCKSTEP_DATA=$temp ends 3 'train-images-idx3-ubyte' train basic --data mnist
LOCKSTEP_DATA=$temp ends 3 'train-images-idx3-ubyte' data fetch fashion-mnist
LOCKSTEP_DATA=$temp ends 3 'or name another folder with LOCKSTEP_DATA$' train basic --data mnist
XDG_CACHE_HOME='' HOME='' ends 3 'no cache folder is known: neither XDG_CACHE_HOME nor HOME is set' train basic --data mnist
XDG_CACHE_HOME='' HOME='' ends 0 'mnist .*no cache folder is known.*with LOCKSTEP_DATA$' doctor
LOCKSTEP_DATA=$temp ends 0 "^mnist +-- +not in $temp/mnist, the folder of LOCKSTEP_DATA\$" doctor
[ ! -e .cache ] || complain "a cache folder was made in the working directory"
TMPDIR=/nonexistent "$lockstep" doctor | grep '^Keras files' >out
"$lockstep" doctor | grep '^Keras files' | cmp - out || complain "doctor with TMPDIR=/nonexistent: $(cat out)"

# ---- what was fetched, and is damaged ----
cached=$XDG_CACHE_HOME/lockstep/mnist
mkdir -p "$cached"
idx() { # file, sizes as printf takes them, bytes
    { printf '%b' "\0\0\010\0$2" && head -c "$3" /dev/zero; } | gzip -c >"$cached/$1-ubyte.gz"
}
for part in train t10k; do
    idx $part-images-idx3 '03\0\0\0\02\0\0\0\034\0\0\0\034' 1568
    idx $part-labels-idx1 '01\0\0\0\02' 2
done
ends 0 '^mnist +ok +.*/cache/lockstep/mnist$' doctor
ends 0 '' train mlp --data mnist --epochs 1 --json
idx t10k-images-idx3 '03\0\0\0\02\0\0\0\034\0\0\0\034' 700
damaged='it should have 1584 bytes when it is unpacked; `lockstep data fetch mnist` downloads it'
ends 0 "^mnist +-- +.*t10k-images-idx3-ubyte.gz: damaged: $damaged" doctor
ends 0 't10k-images-idx3-ubyte.gz: damaged: .*`lockstep data fetch mnist` downloads it' data list
ends 3 't10k-images-idx3-ubyte.gz: .*; `lockstep data fetch mnist` downloads it again' train mlp --data mnist
LOCKSTEP_OFFLINE=1 "$lockstep" data fetch mnist 2>err && complain "data fetch took what is no MNIST"
grep -q 'train-images-idx3-ubyte.gz exists but is wrong: its SHA-256 is' err ||
    complain "data fetch does not look at digests: $(cat err)"

# ---- CSV ----
awk 'BEGIN { print "a,b,c,label"; for (i = 0; i < 96; i++) printf "%d,%d,%.3f,%d\n", i % 7, i % 3 * 2, sin(i), i % 3 }' >rows.csv
ends 0 '' train mlp --data rows.csv --json $quick --save net
sed '40s/,[0-9]*$/,12/' rows.csv >labels.csv
sed '40s/^[0-9]*/x7/' rows.csv >word.csv
sed '40s/,[0-9]*$//' rows.csv >short.csv
sed '1q' rows.csv >header.csv
gzip -c rows.csv | head -c 300 >cut.csv.gz
cut -d, -f2-4 rows.csv >narrow.csv
sed 's/,\([0-9]*\)$/,-\1/' rows.csv >negative.csv
ends 3 'word.csv:40:1: column "a": "x7" is not a number' train mlp --data word.csv
ends 3 'short.csv:40: 3 fields' train mlp --data short.csv
sed '40s/^[0-9]*,/,/' rows.csv >missing_value.csv
sed '40s/^[0-9]*,/nan,/' rows.csv >nan.csv
sed '40s/^\([0-9]*\),[0-9]*/\1,-inf/' rows.csv >infinite.csv
: >empty.csv
for command in "train mlp" "train mlp --data rows.csv --validation"; do
    [[ $command == *validation ]] || command="$command --data"
    # shellcheck disable=SC2086 # words
    ends 3 'missing_value.csv:40:1: column "a": "" is missing or infinite; it should be a finite number' $command missing_value.csv
done
ends 3 'nan.csv:40:1: column "a": "nan" is missing or infinite' train mlp --data nan.csv
ends 3 'infinite.csv:40:[0-9]*: column "b": "-inf" is missing or infinite' train mlp --data infinite.csv
ends 0 'rows *96' data inspect missing_value.csv
ends 3 'empty.csv: is empty; its first line should name the columns \(--no-header: there is none\)' train mlp --data empty.csv
ends 3 'header.csv: has no rows' train mlp --data header.csv
ends 3 'cut.csv.gz: compressed data is cut off' train mlp --data cut.csv.gz
ends 3 '--label "xyzzy": rows.csv has no such column' train mlp --data rows.csv --label xyzzy
ends 3 'negative.csv: row 1: label -1; labels count from 0' train mlp --data negative.csv
ends 3 'model basic takes pictures.* the rows are \[3\]' train basic --data rows.csv

# ---- models, and rows that do not fit them ----
sed 's/"Conv2D"/"Conv9D"/' "$here/normalised.json" >unknown.json
ends 3 'unknown.json: layer "conv2d": there is no class "Conv9D"' train unknown.json
head -c 300 "$here/normalised.json" >cut.json
ends 3 'cut.json: line' train cut.json
ends 3 'rows.csv: rows are \[3\]; the model takes \[28, 28, 1\]' train "$here/normalised.json" --data rows.csv
if [ -f net/model.keras ]; then
    ends 3 'narrow.csv: rows are \[2\]; the model takes \[3\]' train net --data narrow.csv
    ends 3 'digits: rows are .*; the model takes \[3\]' evaluate net --data digits
    for command in "train net $quick" "evaluate net --verbose 0" "train net $quick --data rows.csv --validation"; do
        [[ $command == *validation ]] || command="$command --data"
        # shellcheck disable=SC2086 # words
        ends 3 'labels.csv: row 38, counted from 0: label 12 is out of range; net tells 3 classes apart, 0 to 2' $command labels.csv
    done
    head -c 3000 net/model.keras >cut.keras
    ends 3 'cut.keras: ' evaluate cut.keras --data rows.csv
    ends 3 'cut.keras: ' summary cut.keras

    # ---- arrays ----
    ends 0 '' predict net --data rows.csv --out p.npz
    "$lockstep" predict net --data rows.csv --out p.npy
    head -c 400 p.npz >cut.npz
    head -c 400 p.npy >cut.npy
    ends 3 'p.npz: has neither x_train and y_train nor x and y; it has output_0' train mlp --data p.npz
    ends 3 'cut.npz: ' train mlp --data cut.npz
    ends 3 'cut.npy: ' train mlp --data cut.npy,p.npy
    ends 3 'p.npy: one array; labels come in a second file' train mlp --data p.npy
fi

# ---- IDX ----
mkdir mnist
{ printf '\0\0\010\003\0\0\0\020\0\0\0\034\0\0\0\034' && head -c 5000 /dev/zero; } >mnist/train-images-idx3-ubyte
{ printf '\0\0\010\001\0\0\0\020' && head -c 16 /dev/zero; } >mnist/train-labels-idx1-ubyte
ends 3 'mnist/train-images-idx3-ubyte: cut off: its header says \[16, 28, 28\], and 12544 bytes should follow' \
    train basic --data ./mnist
LOCKSTEP_DATA=$temp ends 3 'train-images-idx3-ubyte: 5000 bytes' train basic --data mnist
echo text >odd-idx3-ubyte
ends 3 'odd-idx3-ubyte: not an IDX file' train basic --data odd-idx3-ubyte,mnist/train-labels-idx1-ubyte

# ---- TFRecord: six records of image (16 bytes) and label ----
base64 -d >rows.tfrecord.gz <<'PACKED'
H4sIAAAAAAACAzNkgIC5zc0vufS5ZLlYM3MT01OFRLiEuAQYmNk4efiFRCWk5RRV1LV0ufi4WHMSk1JzhFilmLkYGUI2Hz1liM8AdhFFPWuP0KT8ms5pizfsPYVm
AOPDdc7+eA3gExQRl5JVUFbT1NE3MrWwRneBwyezWrwGiCrp23iGJRfUdk1fsnHf6RvoLli490I7XgNk5JVUNbT1DE3MrWwdnN080V0gYvfnA14DlA1svcJTCuu6
ZyzdtP/MzWfoLrCT/HEZABJotx+GAQAA
PACKED
gzip -dc rows.tfrecord.gz >rows.tfrecord
head -c 200 rows.tfrecord >cut.tfrecord
{ head -c 100 rows.tfrecord && printf X && tail -c +102 rows.tfrecord; } >damaged.tfrecord
features="--features image:u8:4x4,label:i64"
# shellcheck disable=SC2086 # words
{
    ends 0 '' train mlp --data rows.tfrecord $features $quick --json
    ends 0 '' train mlp --data rows.tfrecord.gz $features $quick --json
    ends 3 'cut.tfrecord: the record at byte 195 is cut off' train mlp --data cut.tfrecord $features $quick
    ends 3 'damaged.tfrecord: ' train mlp --data damaged.tfrecord $features $quick
    ends 3 'rows.tfrecord: .*feature "image": it has 16 bytes' \
        train mlp --data rows.tfrecord --features image:u8:17,label:i64 $quick
}
ends 2 'the first record has image:u8:16,label:i64' train mlp --data rows.tfrecord
ends 2 '--features image:u9: it should be NAME:TYPE:SIZES' train mlp --data rows.tfrecord --features image:u9
ends 0 '^--features image:u8:16,label:i64' data inspect rows.tfrecord

# ---- pictures ----
mkdir -p pictures/up pictures/down
head=iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAA
base64 -d >pictures/up/1.png <<<${head}E0lEQVR4AWNkYIYARgkog4UsBgAyBwFrHtLrZQAAAABJRU5ErkJggg==
base64 -d >pictures/down/1.png <<<${head}EUlEQVR4AWP8/xcCWF5QxAAA1m0+zcrXEusAAAAASUVORK5CYII=
# shellcheck disable=SC2086 # words
ends 0 '' train basic --data pictures --json $quick
head -c 60 pictures/up/1.png >pictures/up/2.png
# shellcheck disable=SC2086 # words
ends 3 'pictures/up/2.png: ' train basic --data pictures --image-size 8x8x1 $quick
exit $bad
