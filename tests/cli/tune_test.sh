#!/usr/bin/env bash
# tune_test.sh PROGRAM: searches by the command line, on small models.
set -uo pipefail
program=$1
folder=$(mktemp -d)
out=$folder/stdout err=$folder/stderr
trap 'rm -rf "$folder"' EXIT
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1

small=(cnn --data shapes --subset 96 --batch 16 --set filters=4 --set hidden=8 --set size=12 --set channels=3)

# tune: a table, the best and the cost; or a rate and a batch size.
run 0 tune "${small[@]}" --steps 2 --grid lr=1e-3,1e-2 --grid clip-norm=0.5,1 --svg grid.svg
says "$out" '^clip-norm  lr +test accuracy  seconds'
says "$out" '^best: --clip-norm (0.5|1) --lr [0-9e.-]+  \(4 runs in [0-9]+ s\)$'
says grid.svg '^<svg xmlns='
run 0 tune "${small[@]}" --steps 2 --grid lr=1e-3,1e30 --optimizer sgd --json
python3 - "$out" << 'EOP' || fault "tune --json"
import json, sys
good, bad, last = [json.loads(line) for line in open(sys.argv[1])]
assert good["setting"] == {"lr": "1e-3"} and 0 <= good["score"] <= 1 and good["seconds"] > 0, good
assert bad["setting"] == {"lr": "1e30"} and (bad["score"] is None) == ("error" in bad), bad
assert last["final"] is True and last["setting"] == good["setting"] and last["score"] == good["score"], last
assert last["score_name"] == "test accuracy" and last["runs"] == 2, last
EOP
run 0 tune "${small[@]}" --steps 2 --grid threads=1,2 --grid eager=true --grid hidden=4
says "$out" '^best: --eager=true --set hidden=4 --threads [12]  \(2 runs in [0-9]+ s\)$'
run 0 tune "${small[@]}" --memory-budget 2MiB --json
says "$out" '^{"final":true,"batch":[1-9][0-9]*,"largest_batch":[0-9]+,"budget_bytes":2097152,"lr":[0-9.e-]+,"pictures":\["runs/tune-cnn-[0-9]+-[0-9]+(-[0-9]+)?/batch.svg","runs/tune-cnn-[0-9]+-[0-9]+(-[0-9]+)?/learning_rate.svg"\]}$'
found=$(grep -oE '"batch":[0-9]+' "$out" | grep -oE '[0-9]+')  # fits the step of train as it is
run 0 plan cnn --batch "$found" --set filters=4 --set hidden=8 --set size=12 --set channels=3 --set classes=3 --memory-budget 2MiB --json
says "$out" '"micro_batches":1,"recomputed":0'
run 0 tune "${small[@]}" --memory-budget 2MiB --svg rate.svg
says "$out" '^batch: [1-9]'
says "$out" '^lr: [0-9.e-]+$'
for picture in rate.svg rate-batch.svg; do
  says "$out" "^$picture\$"
  says $picture '^<svg xmlns='
done

# Every search leaves its pictures, and tells where; without a budget the free memory is the limit of a batch.
run 0 tune "${small[@]}" --steps 3 --out pictures
says "$err" '^the batch size is searched for within [0-9.]+ [MGT]iB, which are free; --memory-budget sets another limit$'
says "$out" '^batch: 4096  \(all examples\)$'  # those of the whole data, not of the subset
for picture in batch learning_rate; do
  says "$out" "^pictures/$picture.svg\$"
  says "pictures/$picture.svg" '^<svg xmlns='
done
run 0 tune "${small[@]}" --steps 2 --grid lr=1e-3,1e-2
picture=$(tail -1 "$out")
says "$out" '^runs/tune-cnn-[0-9]+-[0-9]+(-[0-9]+)?/grid.svg$'
says "$picture" '^<svg xmlns='
before=$(ls runs | wc -l)
run 1 tune "${small[@]}" --steps 2 --grid lr=1e30,1e31 --optimizer sgd --weight-decay 1e30
[ "$(ls runs | wc -l)" -eq "$before" ] || fault "a search that failed must leave no empty folder"
touch file
for place in '--out file/pictures' '--svg nowhere/grid.svg'; do
  run 1 tune "${small[@]}" --steps 2 --grid lr=1e-3 $place
  says "$err" '^error: .*cannot write to (file|nowhere)'
  silent "$out"  # at once: no run is for nothing
done
run 2 tune "${small[@]}" --out pictures --svg grid.svg

# A rate is searched for in the steps that train would run.
for how in --eager '--precision f16'; do
  run 0 tune "${small[@]}" --steps 3 --json $how --out how
  says "$out" '"lr":[0-9.e-]+,'
done
says "$out" '"batch":4096,'
run 0 tune "${small[@]}" --steps 3 --eager --out how
says "$err" '^no batch size is searched for: steps that run op by op have no plan$'
! grep -q '^batch: ' "$out" || fault "eager steps have no plan"
sed '0,/^learning rate/d' "$out" > eager
run 0 tune "${small[@]}" --steps 3 --out how
diff <(grep '^[0-9]' eager) <(sed '0,/^learning rate/d' "$out" | grep '^[0-9]') || fault "eager and compiled steps have the same losses"
run 0 tune "${small[@]}" --steps 3
[ "$(sed '0,/^learning rate/d' "$out" | grep -c '^[0-9]')" -eq 4 ] || fault "--steps 3 must try three rates"
run 0 tune "${small[@]}" --steps 2 --grid loss=sparse_categorical_crossentropy,mean_squared_error --out losses
says "$err" '\[tune\] it has a test loss, which does not compare with a test accuracy'
run 2 tune "${small[@]}" --steps 2 --grid loss=mean_squared_error,mean_absolute_error
says "$err" 'expected one --loss where the loss is the score'
run 0 tune "${small[@]}" --steps 2 --grid loss=mean_squared_error --out losses
says "$out" '^mean_squared_error +[0-9.]+ '

# What is tried need not go without the grid, nor one key of it without the others; what goes in no combination does not.
printf 'a text to learn, %s\n' $(seq 40) > text
run 0 tune gpt --grid data=text,text --set layers=1 --set heads=2 --set width=8 --set context=8 --steps 2 --out text_of_grid
run 0 tune gpt --data text --grid heads=5,3 --grid width=40,9 --set layers=1 --set context=8 --steps 2 --out together
says "$out" '^5 +40 +[0-9.]+ '
says "$out" '^3 +40 +failed '
says "$out" '^best: --set heads=[35] --set width=(40|9)  \(4 runs in [0-9]+ s\)$'
run 2 tune gpt --data text --grid heads=5,7 --grid width=40,9 --steps 2
says "$err" '^error: \[gpt\] expected heads that divide the width of 40, got 7$'
run 0 tune gpt --data text --grid set=width=8,width=16 --set layers=1 --set heads=2 --set context=8 --steps 2 --out together
says "$out" '^best: --set width=(8|16) '
run 0 tune unet --grid size=10 --grid widths=4 --set bottom=4 --subset 8 --batch 4 --steps 2 --out levels
run 1 tune mlp --data nothing.csv --grid lr=1e-3,1e-2
[ "$(grep -c 'there is no file or folder nothing.csv' "$err")" -eq 1 ] || fault "what is wrong with all runs is to be told once"
run 0 tune "${small[@]}" --steps 2 --grid device=cuda:0,cpu --out devices
says "$out" '^best: --device cpu '

printf '%s\n' 0,0,0 0,1,1 1,0,1 1,1,0 0,2,0 2,0,1 > few.csv
# Lines for tools are printed as the runs end, so that a search that is ended early has told of those before. (Without
# job control a shell's background processes are deaf to Ctrl-C.)
set -m
"$program" tune mlp --data few.csv --set hidden=4 --grid steps=1,1000000000 --epochs 1000000000 --json --out early > lines 2> "$err" &
while kill -0 $! 2> /dev/null && ! grep -q setting lines; do sleep 0.05; done
kill -INT $!
wait $!
[ $? -eq 130 ] || fault "Ctrl-C must leave a search with 130"
[ "$(grep -c '"steps":"1"' lines)" -eq 1 ] || fault "the first run must have been told of"
# A table has the runs that ended.
"$program" tune mlp --data few.csv --set hidden=4 --grid steps=1,2,1000000000 --epochs 1000000000 --out early > "$out" 2> "$err" &
while kill -0 $! 2> /dev/null && ! grep -q '^steps=2 ' "$err"; do sleep 0.05; done
kill -TERM $!
wait $!
[ $? -eq 143 ] || fault "SIGTERM must leave a search with 143"
set +m
says "$out" '^steps +training loss +seconds'
[ "$(grep -cE '^[12] ' "$out")" -eq 2 ] || fault "the table must have both runs"
says "$out" '^best so far: --steps [12]  \(2 runs in [0-9]+ s\)$'

# The loss is that of a direction, from -1 to 1: what is below 0 is no sign that it grows.
python3 -c 'for i in range(40): print(i % 7, i % 5, (i % 7) / 7 - 0.3, sep=",")' > direction.csv
run 0 tune mlp --data direction.csv --set hidden=4 --batch 8 --loss cosine_similarity --out direction --json
python3 -c 'import json; assert json.loads(input())["lr"] > 1e-5' < "$out" || fault "a rate for losses below 0"
run 2 tune "${small[@]}" --steps 2 --loss mean_squared_error --grid loss=mean_squared_error,mean_absolute_error
says "$err" 'expected one --loss where the loss is the score'
# Too few examples for a test: the training loss is the score, the smallest is the best, and those of two losses differ.
few=(mlp --data few.csv --set hidden=8 --epochs 20 --batch 6)
run 0 tune "${few[@]}" --grid lr=1e-6,1e-2
says "$out" '^lr +training loss  seconds'
says "$out" '^best: --lr 1e-2 '
run 0 tune "${few[@]}" --grid lr=1e-6,1e-2 --json
python3 - "$out" << 'EOP' || fault "tune without a test"
import json, sys
*rows, last = [json.loads(line) for line in open(sys.argv[1])]
assert last["score_name"] == "training loss" and last["score"] == min(row["score"] for row in rows), last
EOP
run 2 tune "${few[@]}" --grid loss=sparse_categorical_crossentropy,mean_squared_error
says "$err" 'expected one --loss where the loss is the score'
run 2 tune "${small[@]}" --schedule cosine
says "$err" '^error: expected a constant rate where one is searched for, got --schedule cosine'
run 2 tune "${small[@]}" --steps 1
run 0 tune --help
! grep -q resume "$out" || fault "tune does not resume"

exit $((faults > 0))
