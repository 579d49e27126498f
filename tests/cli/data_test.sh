#!/usr/bin/env bash
# data_test.sh PROGRAM: training on files of every kind, and what is said of files that are damaged.
set -uo pipefail
program=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
out=$folder/stdout err=$folder/stderr
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$here/support.sh"
python3 "$here/make_data.py" || exit 1

# Classes that are easily told apart are told apart: inputs and labels arrive as they are in the file.
learns() {  # DATA ARGUMENTS…
  run 0 train "${@:2}" --data "$1" --checkpoint-every 1000 --out "run/$2/$1"  # one checkpoint: each waits for the disk
  says "$out" '^test accuracy (1\.0|0\.9)'
}
mlp=(mlp --set hidden=16 --batch 16 --epochs 30 --lr 0.02)
for data in table.csv bare.csv packed.csv.gz table.npy arrays arrays.npz rows.tfrecord float_labels.tfrecord records; do
  learns "$data" "${mlp[@]}"
done
for data in idx packed_idx idx/train-images-idx3-ubyte images; do
  learns "$data" cnn --set filters=4,4 --set hidden=8 --set size=16 --batch 16 --epochs 12 --lr 0.02
done
learns images "${mlp[@]}"
grep -q '"classes": "3"' run/cnn/images/config.json || fault "the data must tell the classes"
grep -q '"inputs": "4"' run/mlp/table.csv/config.json || fault "the data must tell the inputs"
[ "$(grep -c '"grad_norm"' run/cnn/idx/log.jsonl)" -eq $((12 * 8)) ] || fault "120 images are 8 batches"
[ "$(grep -c '"grad_norm"' run/mlp/table.csv/log.jsonl)" -eq $((30 * 9)) ] || fault "144 of 160 rows are 9 batches"

# Numbers to be met, in a table and as one's own loss.
run 0 train mlp --data numbers.csv --loss mean_squared_error --set hidden=16 --batch 16 --epochs 30 --lr 0.02 --checkpoint-every 1000 --out numbers
says "$out" '^test loss 0\.00'
for loss in huber kl_divergence dice binary_focal_crossentropy cosine_similarity; do
  run 0 train mlp --data onehot.npz --loss "$loss" --set hidden=8 --batch 16 --epochs 2 --out "loss/$loss"
  grep -q '"classes": "3"' "loss/$loss/config.json" || fault "$loss: rows of three numbers"
done
# Of numbers that may be below 0 it would have no value.
run 0 train mlp --data numbers.csv --loss poisson --set hidden=16 --batch 16 --epochs 5 --seed 2 --out rates
says "$out" '^test loss [0-9.-]+$'
run 0 train gpt --data book.txt --set layers=1 --set heads=2 --set width=16 --set context=16 --batch 8 --steps 3 --out gpt
says "$out" '^sample:$'
for size in vocabulary=200 context=1; do
  run 0 train gpt --data book.txt --set layers=1 --set heads=2 --set width=16 --set context=16 --set $size --batch 8 --steps 3 --out "gpt_$size"
  says "$out" '^sample:$'
done
run 1 train gpt --data book.txt --set layers=1 --set heads=2 --set width=16 --set context=16 --set clip=0 --batch 8 --steps 9 --lr 1e30 --optimizer sgd --out wild
says "$err" 'training stopped: the loss of step'
! grep -q '^sample:' "$out" || fault "weights that are not finite write no text"

# Masks with an axis of one channel are masks.
run 0 train mlp --data columns.npz --set hidden=4 --batch 16 --steps 2 --out columns
for data in masks one_channel; do
  run 0 train unet --data "$data.npz" --set widths=4 --set bottom=4 --batch 4 --steps 2 --out "unet/$data"
done
cmp -s unet/masks/checkpoints/step-2/model.safetensors unet/one_channel/checkpoints/step-2/model.safetensors ||
  fault "a channel of a mask must change nothing"

# An interrupted run over files goes on with the same bits.
run 0 train "${mlp[@]}" --data packed.csv.gz --steps 13 --out cut
run 0 train "${mlp[@]}" --data packed.csv.gz --checkpoint-every 1000 --out cut --resume
cmp -s run/mlp/packed.csv.gz/checkpoints/step-270/model.safetensors cut/checkpoints/step-270/model.safetensors ||
  fault "resuming changed the weights"

# A schedule lasts as long as the run, also where the 9 batches of an epoch are 3 updates, the last one of a single batch.
for steps in 36 31; do
  length=$([ $steps = 36 ] && echo --epochs 4 || echo --steps $steps)
  run 0 train mlp --set hidden=16 --batch 16 --data table.csv --seed 3 --accumulate 4 --schedule linear --lr 0.01 $length --out "schedule$steps"
  ! cmp -s "schedule$steps/checkpoints/step-27/model.safetensors" "schedule$steps/checkpoints/step-$steps/model.safetensors" ||
    fault "the schedule must not end before the run"
done

# Data that have changed are noticed, though they are as long as before and have as many examples. Runs of versions that
# did not look go on.
swapped() { sed "$2s/.*/$(sed -n "$3p" "$1")/;$3s/.*/$(sed -n "$2p" "$1")/" "$1" > other && cp other "$1"; }
cp table.csv rows.csv
run 0 train "${mlp[@]}" --data rows.csv --steps 3 --out changed
run 0 train "${mlp[@]}" --data rows.csv --steps 4 --out changed --resume
cp changed/config.json begun.json
swapped rows.csv 3 4
cmp -s table.csv rows.csv && fault "two rows are the same"
run 1 train "${mlp[@]}" --data rows.csv --steps 5 --out changed --resume
says "$err" '^error: .*the data have changed since the run in changed was begun: expected rows.csv of [0-9]+ bytes, hash [0-9a-f]{16}, got [0-9]+ bytes, hash'
says "$err" 'hint: bring the file back or begin another run'
cmp -s begun.json changed/config.json || fault "a refused run is left as it was"
python3 -c 'import json; run = json.load(open("begun.json")); del run["files"]; json.dump(run, open("changed/config.json", "w"))'
run 0 train "${mlp[@]}" --data rows.csv --steps 5 --out changed --resume
cp -r arrays folder
run 0 train "${mlp[@]}" --data folder --steps 3 --out folder/run
run 0 train "${mlp[@]}" --data folder --steps 4 --out folder/run --resume
python3 -c 'bytes = bytearray(open("folder/x.npy", "rb").read()); bytes[-1] ^= 1; open("folder/x.npy", "wb").write(bytes)'
run 1 train "${mlp[@]}" --data folder --steps 5 --out folder/run --resume
says "$err" 'expected folder/x.npy of'
cp -r images named && mv "$(find named -type f | sort | head -n 1)" "$(find named -type f | sort | head -n 1)"$'\xe9.png'
run 0 train "${mlp[@]}" --data named --steps 3 --out named_run
run 0 train "${mlp[@]}" --data named --steps 4 --out named_run --resume
gpt=(gpt --data long.txt --set layers=1 --set heads=2 --set width=8 --set context=16 --batch 4)
python3 -c 'open("long.txt", "w").write("abcdefg " * 50000)'  # blocks of it are looked at, the first and the last too
run 0 train "${gpt[@]}" --steps 1 --subset 8 --out long
for place in 0 -1; do
  python3 -c "text = list('abcdefg ' * 50000); text[$place] = 'c'; open('long.txt', 'w').write(''.join(text))"
  run 1 train "${gpt[@]}" --steps 2 --subset 8 --out long --resume
  says "$err" 'expected long.txt of 400000 bytes'
done

# An image that cannot be decoded in the midst of an epoch: the steps before it are saved, and once it is mended the run
# goes on as if it had always been good. Of more files than are looked into, too.
broken=(mlp --set hidden=16 --batch 4 --epochs 2 --lr 0.02)
for count in 0 300; do
  rm -rf holes && cp -r images holes
  first=$(find images/a -type f | sort | head -n 1) other=$(find holes/c -type f | sort | head -n 1)
  for i in $(seq "$count"); do cp "$first" "holes/a/copy$i.png"; done
  run 0 train "${broken[@]}" --data holes --out "good$count"
  hole=$(find holes/b -name '*.png' | sort | sed -n 2p)
  cp "$hole" kept.png && head -c 50 kept.png > "$hole"
  run 1 train "${broken[@]}" --data holes --out "holes$count"
  says "$err" "training stopped after step [1-9][0-9]*, which is saved: .*$hole cannot be decoded: .*\\(element [0-9]+ of image_folder"
  says "$err" "hint: fetch the file again, or put another image of its class in its place, .* go on with --out holes$count --resume"
  [ "$(cat "holes$count/checkpoints/latest")" = "step-$(grep -c grad_norm "holes$count/log.jsonl")" ] ||
    fault "data that cannot be read: the last step must be saved"
  run 1 train "${broken[@]}" --data holes --out "holes$count" --resume
  says "$err" 'training stopped after step [1-9][0-9]*, which is saved'
  mv "$hole" gone.png
  run 1 train "${broken[@]}" --data holes --out "holes$count" --resume
  says "$err" "$hole, which the run in holes$count could not read, is no longer there"
  says "$err" 'hint: put an image of its class in its place, under the same name'
  cp kept.png "$hole" && cp "$other" other.png && printf 'x' >> "$other"
  run 1 train "${broken[@]}" --data holes --out "holes$count" --resume
  says "$err" 'the data have changed since the run in holes'
  cp other.png "$other"
  run 0 train "${broken[@]}" --data holes --out "holes$count" --resume
  [ "$count" -gt 0 ] || says "$err" "warning: $hole has changed since the run could not read it"
  last=$(cat "good$count/checkpoints/latest")
  cmp -s "good$count/checkpoints/$last/model.safetensors" "holes$count/checkpoints/$last/model.safetensors" ||
    fault "a run whose data were mended must be as one whose data were good"
  ! grep -q broken "holes$count/config.json" || fault "what was mended is no longer broken"
done
# An image of many that is cut short while the run goes on, to which it can be brought back.
hole=$(find holes/b -name '*.png' | sort | sed -n 2p)
endless=("${broken[@]/#2/1000000}")
"$program" train "${endless[@]}" --data holes --out shortened --json > lines 2> "$err" &
while kill -0 $! 2> /dev/null && [ ! -s lines ]; do sleep 0.05; done
cp "$hole" kept.png && head -c 50 kept.png > "$hole"
wait $! && fault "an image that is cut short must end the run"
says "$err" "training stopped after step [1-9][0-9]*, which is saved: .*$hole cannot be decoded"
cp kept.png "$hole"
run 0 train "${endless[@]}" --data holes --out shortened --resume --steps "$(($(sed 's/step-//' shortened/checkpoints/latest) + 1))"

run 0 train "${broken[@]}" --data holes --steps 1 --out one_step
printf 'x' >> "$hole"
run 1 train "${broken[@]}" --data holes --out one_step --resume
says "$err" 'the data have changed since the run in one_step'

# What may not be meant is told, once a process.
run 0 train mlp --data first_row.csv --set hidden=4 --steps 1 --out first_row
says "$err" '^warning: first_row.csv: the first row is taken for the names of the columns, since "\?" is no number'
run 0 tune mlp --data years.csv --set hidden=4 --steps 1 --grid lr=0.1,0.01
[ "$(grep -c 'years.csv: the labels make 2022 classes, of which 2 have examples; number the classes' "$err")" -eq 1 ] ||
  fault "labels with gaps are to be told once"
run 0 train resnet50 --data channels_first.npz --set width=4 --steps 1 --out channels
says "$err" 'examples of shape \[3, 16, 16\] are taken as 3 high, 16 wide, of 16 channels; store channels last'
run 0 train mlp --data one_test.npz --set hidden=4 --steps 1 --out one_test
! grep -q warning "$err" || fault "classes 0, 1, 2 are all there"
says "$out" '^test accuracy'

# What cannot be trained on: the file is named, and what is wrong, and what to do.
refuses() {  # DATA WORDS [MODEL]
  run 1 train "${3:-mlp}" --data "$1" --steps 1 --batch 2 --out none
  silent "$out"
  says "$err" "^error: .*$1"
  says "$err" "$2"
  says "$err" 'hint: .'
}
refuses missing.csv 'no file or folder'
mkfifo pipe.csv
refuses pipe.csv 'is no file that can be read more than once'
refuses text_in_column.csv 'row 1 \(line 3\), column "b": expected f32, found "four"'
says "$err" 'hint: write a number there; classes are numbered 0, 1, 2, …$'
refuses empty_field.csv 'column "b": expected f32, found ""'
says "$err" 'hint: fill in the empty fields$'
refuses one_row.csv 'has 1 example$'
refuses ragged.csv 'row 1 \(line 3\) has 2 fields, expected 3'
refuses fraction.csv 'example 1 has the label 0.5'
refuses negative.csv 'example 1 has the label -1'
refuses semicolons.csv 'has one column'
refuses empty.csv 'is empty'
refuses header.csv 'has 0 examples'
refuses cut.csv.gz 'ends within its packed data'
refuses cut.npy 'should have 2560 bytes of values'
refuses object.npy 'has the type \|O'
refuses image.npy 'rank 3'
refuses other.npz 'has no array "x"'
refuses uneven 'x of 160 and y of 3'
refuses wide_test.npz 'expected rows of shape \[4\] in x_test, as in x_train, got \[2\]'
refuses no_test.npz 'has no example in x_test'
refuses no_columns 'examples of shape \[0\], without a number'
refuses cut_idx 'more than the file can hold'
refuses unlabelled 'there is no train-labels-idx1-ubyte in unlabelled' cnn
refuses half 'there is no t10k-images-idx3-ubyte in half' cnn
refuses broken_images 'one.png cannot be decoded' cnn
refuses empty_image 'a/one.png cannot be decoded: it is neither PNG nor JPEG' cnn
! grep -q 'training cnn' "$err" || fault "a file that is no image is to be told before training"
refuses no_images 'has no folders with .png' cnn
refuses damaged.tfrecord 'the checksum of the record at byte 171 is wrong'
refuses rows.tfrecord '"x" has 4 values, expected \[28, 28, 1\]' cnn
says "$err" 'hint: store as many values in every record, those of one example$'
refuses uneven.tfrecord '"x" has 3 values, expected \[2\]'
refuses no_label.tfrecord 'the record has no feature "y"'
says "$err" 'hint: store the features x and y in every record$'
refuses integers.tfrecord 'feature "x" has integers, expected f32'
says "$err" 'hint: store x as floats, and y as an integer or a float$'
refuses table.csv 'examples of shape \[4\], cnn takes \[28, 28, 1\]' cnn
refuses images 'a class for every pixel' unet
refuses small_masks.npz 'labels of shape \[8, 8\] for examples of \[16, 16, 3\], expected a class for every pixel' unet
refuses book.txt 'is of no kind'
refuses short.txt 'has 5 characters' gpt
refuses latin.txt 'is not UTF-8 at byte 3' gpt
says "$err" 'hint: convert the file to UTF-8$'
run 1 train mlp --data table.csv --set classes=2 --steps 1 --out none
says "$err" 'table.csv has classes: 3, got --set classes=2'
run 1 train mlp --data table.csv --set inputs=5 --steps 1 --out none
says "$err" 'table.csv has inputs: 4, got --set inputs=5'
run 1 train cnn --data idx --set size=12 --steps 1 --out none
says "$err" 'idx has size: 16, got --set size=12'
run 1 train gpt --data book.txt --set vocabulary=5 --steps 1 --out none
says "$err" 'book.txt has vocabulary: [0-9]+, got --set vocabulary=5'
for loss in categorical_crossentropy binary_crossentropy binary_focal_crossentropy dice tversky squared_hinge; do
  run 2 train mlp --data table.csv --loss "$loss" --steps 1 --out none
  says "$err" "table.csv: example [0-9]+ has the label 2, expected a number from (0|-1) to 1 with --loss $loss"
  run 2 train cnn --data images --set size=16 --loss "$loss" --steps 1 --out none
  says "$err" "images has the labels 0 to 2, expected a number from (0|-1) to 1 with --loss $loss"
done
run 1 train mlp --data not_finite.csv --steps 2 --batch 4 --out not_finite
says "$err" 'the loss of step 1 is nan: the data have nan in the input: value 1 of example [0-2] of the batch'
says "$err" 'hint: mend the data.* is not_finite.csv: example 2$'
run 1 train mlp --data too_large.npz --steps 5 --batch 4 --out too_large
says "$err" 'hint: mend the data.* is too_large.npz: example 3$'
run 2 train cnn --data images --set channels=2 --steps 1 --out none
says "$err" 'hint: choose --set channels=1, 3 or 4$'
run 2 train cnn --data shapes --set size=4 --steps 1 --out none
says "$err" 'hint: choose another --set size=N$'
run 2 train mlp --data label_not_finite.csv --loss mean_squared_error --steps 1 --out none
says "$err" 'example 1 has the label nan, expected a finite number'
run 2 train mlp --data two_classes.csv --loss categorical_crossentropy --steps 1 --out none
says "$err" 'expected labels as rows of probabilities'
for data in two_classes.csv clicks.tfrecord; do
  run 0 train mlp --data "$data" --loss binary_crossentropy --set hidden=4 --batch 4 --steps 2 --out "binary/$data"
done

# Arrays in large files are read row by row: the same examples in the same order as those of small ones, in little memory.
python3 - << 'EOP' || fault "large arrays"
import os
import random, struct, zipfile
def head(descr, shape):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
random.seed(1)
columns, whole = 1024, 70000  # with 4 bytes each 287 MB, of which the file system holds what is not zero
rows = [[random.random() for _ in range(columns)] + [i % 3] for i in range(1000)]
def store(name, descr, part, shape, count):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as file:
        file.write(head(descr, (count, *shape)))
        size = struct.calcsize(descr[1:].replace("f4", "f").replace("i8", "q")) * (shape[0] if shape else 1)
        end = file.tell() + size * count
        kind = {"<f4": "f", "<i8": "q"}[descr]
        for row in rows:
            file.write(struct.pack("<%d%s" % (shape[0] if shape else 1, kind), *part(row)))
        file.truncate(end)
for name, count in ("small", 1000), ("large", whole):
    store(name + "/x.npy", "<f4", lambda row: row[:-1], (columns,), count)
    store(name + "/y.npy", "<i8", lambda row: row[-1:], (), count)
    store(name + "/tables/t.npy", "<f4", lambda row: row, (columns + 1,), count)
    with zipfile.ZipFile(name + ".npz", "w") as archive:
        archive.write(name + "/x.npy", "x.npy"), archive.write(name + "/y.npy", "y.npy")
    os.makedirs(name + "/idx")
    for ending, type, sizes, part in (("images-idx3-ubyte", 13, (32, 32), lambda row: struct.pack(">1024f", *row[:-1])),
                                      ("labels-idx1-ubyte", 8, (), lambda row: bytes(row[-1:]))):
        with open(name + "/idx/train-" + ending, "wb") as file:
            file.write(struct.pack(">HBB%dI" % (1 + len(sizes)), 0, type, 1 + len(sizes), count, *sizes))
            end = file.tell() + len(part(rows[0])) * count
            file.write(b"".join(part(row) for row in rows))
            file.truncate(end)
EOP
for kind in '' /tables/t.npy .npz /idx; do
  for name in small large; do
    rm -rf $name.run
    run 0 train mlp --data "$name$kind" --subset 64 --batch 16 --epochs 2 --set hidden=4 --out $name.run
  done
  losses() { grep -oE '"(loss|grad_norm|val_loss)":[^,}]*' "$1.run/log.jsonl" | sed '$d'; }
  diff <(losses small) <(losses large) > /dev/null || fault "small$kind and large$kind have the same examples"
  python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 200 << 10' \
    "$program" train mlp --data "large$kind" --subset 64 --batch 16 --steps 1 --set hidden=4 --out "little$(basename "$kind")" ||
    fault "large$kind is to be read row by row"
done
rm -rf large large.npz
# What is packed has to be held: of more than memory takes it is said what to do.
mkdir beyond
python3 - << 'EOP' || fault "a large packed file"
import struct, zlib
packer = zlib.compressobj(wbits=31)
head = struct.pack(">HBBIII", 0, 8, 3, 1 << 20, 1024, 1024)  # 1 TiB
with open("beyond/train-images-idx3-ubyte.gz", "wb") as file:
    file.write(packer.compress(head + bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH))
    file.truncate(2 << 30)
open("beyond/train-labels-idx1-ubyte", "wb").write(struct.pack(">HBBI", 0, 8, 1, 2) + bytes(2))
EOP
refuses beyond 'idx3-ubyte.gz does not fit into memory, where what is packed has to be held as a whole: .* requested 1.00 TiB'
says "$err" 'hint: unpack it with gunzip: rows are then read one by one$'
rm -rf beyond
truncate -s -1 small/tables/t.npy
refuses small/tables/t.npy 'should have'

exit $((faults > 0))
