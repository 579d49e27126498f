#!/usr/bin/env bash
# train_test.sh PROGRAM SOURCE_FOLDER: training and tuning by the command line, on small models.
set -uo pipefail
program=$1 source=$2
folder=$(mktemp -d)
out=$folder/stdout err=$folder/stderr
trap 'rm -rf "$folder"' EXIT
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1
losses() { grep -o '"loss":[^,]*,"grad_norm":[^,]*' "$1/log.jsonl"; }

small=(cnn --data shapes --subset 96 --batch 16 --set filters=4 --set hidden=8 --set size=12 --set channels=3)

# The run folder, the lines for tools, and the end of the text.
run 0 train "${small[@]}" --steps 9 --memory-budget 4MiB --out whole --json
silent "$err"
python3 - "$out" << 'EOP' || fault "train --json"
import json, os, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
steps, last = lines[:-1], lines[-1]
assert [line["step"] for line in steps] == list(range(1, 10)), steps
assert all(line.keys() == {"step", "loss", "grad_norm", "step_ms"} and line["grad_norm"] > 0 for line in steps)
assert last.keys() >= {"final", "steps", "loss", "metric", "peak_bytes_planned", "peak_bytes_measured", "items_per_s", "out"}
assert last["final"] is True and last["steps"] == 9 and last["out"] == "whole" and 0 <= last["metric"] <= 1
assert 0 < last["peak_bytes_measured"] <= last["peak_bytes_planned"] <= 4 << 20
assert last["items_per_s"] > 9 * 16 / sum(line["step_ms"] / 1000 for line in steps), "the rate has the planning of the first step"
config = json.load(open("whole/config.json"))
assert config["model"] == "cnn" and config["batch"] == 16 and config["lr"] == 0.001 and config["settings"]["classes"] == "3"
assert config["loss"] == "sparse_categorical_crossentropy" and config["subset"] == 96, config
assert config["checkpoint_every"] == 0 and config["monitor_every"] == 10, config
assert config["sizes"] == {"filters": "4", "hidden": "8", "classes": "3", "size": "12", "channels": "3"}, config
files = os.listdir("whole")
assert any(name.startswith("events.out.tfevents.") for name in files), files
assert {"config.json", "log.jsonl", "plan.svg", "report.html", "checkpoints"} <= set(files), files
assert "step-9" in os.listdir("whole/checkpoints"), os.listdir("whole/checkpoints")
page = open("whole/report.html").read()
assert "loss by step" in page and "norm by layer" in page and 'src="http' not in page and "href=" not in page
EOP

# Cut and resumed: the same bits. Cut in an epoch (of 6 steps), and at the end of one.
for cut in 2 6 7; do
  run 0 train "${small[@]}" --steps $cut --memory-budget 4MiB --out "cut$cut"
  says "$out" '^test accuracy 0\.[0-9]{4}$'
  says "$out" "^cut$cut/report.html$"
  printf '{"step":8,"loss":0.5,"grad_norm":1}\n{"step":9,"lo' >> "cut$cut/log.jsonl"  # as if killed after the checkpoint
  run 0 train "${small[@]}" --steps 9 --memory-budget 4MiB --out "cut$cut" --resume
  [ "$(grep -c '"grad_norm"' "cut$cut/log.jsonl")" = 9 ] || fault "resuming after $cut steps repeated lines of the log"
  [ "$(grep -c '"final"' "cut$cut/log.jsonl")" = 1 ] || fault "a run has one end"
  diff <(losses whole) <(losses "cut$cut") > /dev/null || fault "resuming after $cut steps changed the run"
  cmp -s whole/checkpoints/step-9/model.safetensors "cut$cut/checkpoints/step-9/model.safetensors" ||
    fault "resuming after $cut steps changed the weights"
done

# Ctrl-C: the step is finished and saved, and the run can go on. (Without job control a shell's background processes
# are deaf to it.)
set -m
"$program" train "${small[@]}" --epochs 100000 --out stopped > "$folder/child" 2>&1 &
child=$!
for _ in $(seq 600); do grep -q '"step":3' stopped/log.jsonl 2> /dev/null && break; sleep 0.1; done
run 1 train "${small[@]}" --epochs 100000 --out stopped --resume
says "$err" 'another process trains in stopped'
kill -INT $child
for _ in $(seq 600); do kill -0 $child 2> /dev/null || break; sleep 0.1; done
kill -KILL $child 2> /dev/null
wait $child
[ $? -eq 130 ] || fault "Ctrl-C must leave with 130"
set +m
step=$(cat stopped/checkpoints/latest)
[ -e "stopped/checkpoints/$step/manifest.json" ] || fault "Ctrl-C must save"
[ "step-$(grep -c '"grad_norm"' stopped/log.jsonl)" = "$step" ] || fault "Ctrl-C must save the last step"
run 0 train "${small[@]}" --epochs 100000 --steps $((${step#step-} + 2)) --out stopped --resume

# So do the signals by which a batch system announces the end of a job, with a status of their own.
for name in TERM USR1; do
  "$program" train "${small[@]}" --epochs 100000 --out "ended$name" > "$folder/child" 2>&1 &
  child=$!
  for _ in $(seq 600); do grep -q '"step":3' "ended$name/log.jsonl" 2> /dev/null && break; sleep 0.1; done
  kill -$name $child
  wait $child
  [ $? -eq $((128 + $(kill -l $name))) ] || fault "SIG$name must have a status of its own"
  step=$(cat "ended$name/checkpoints/latest")
  [ "step-$(grep -c '"grad_norm"' "ended$name/log.jsonl")" = "$step" ] || fault "SIG$name must save the last step"
done

# 16 bits, with a loss scale that checkpoints keep.
run 0 train "${small[@]}" --steps 3 --precision f16 --out f16
run 0 train "${small[@]}" --steps 5 --precision f16 --out f16 --resume
[ -e f16/checkpoints/step-5/scale.safetensors ] || fault "the loss scale is not in the checkpoint"

run 0 train resnet50 --set size=32 --set width=4 --subset 16 --batch 8 --steps 2 --precision f16 --out overflow
says "$err" '^warning: no update was made: in f16 the gradients of every step overflowed; a longer run lowers the loss scale$'
! grep -q '"grad_norm":[0-9]' overflow/log.jsonl || fault "norms that are not finite are null"

# Weights that are not finite never take the place of a checkpoint.
run 1 train "${small[@]}" --optimizer sgd --lr 1e30 --steps 9 --checkpoint-every 1 --out lost
says "$err" '^warning: .* is not finite after step [0-9], which is not saved; lost/checkpoints/step-[0-9] has the last good weights$|which is not saved; there is no checkpoint before it$'
says "$err" '^error: \[train\] training stopped: the loss of step [0-9] is'
[ "$(ls lost/checkpoints | grep -c step)" -lt "$(grep -c '"grad_norm"' lost/log.jsonl)" ] || fault "the last step has no good weights"
run 1 train "${small[@]}" --optimizer sgd --lr 1e38 --steps 9 --out lost_at_once
run 1 train "${small[@]}" --optimizer sgd --lr 1e38 --steps 9 --out lost_at_once --resume
says "$err" 'hint: its loss was not finite before the first checkpoint: begin another run'

# Every model trains.
run 0 train gpt --data "$source/README.md" --set layers=1 --set heads=2 --set width=16 --set context=16 --batch 4 --steps 3 --out gpt
says "$out" '^sample:$'
says "$out" '^test loss [0-9]'
for size in '"size": "nano"' '"layers": "1"' '"dropout": "0"' '"vocabulary": "[0-9]+"'; do says gpt/config.json "$size"; done

# A subset is one of the test, too: of its six rows the last two, of labels that nothing comes near, are left out.
python3 - << 'EOP'
with open("subset.csv", "w") as file:
    file.write("a,b,label\n" + "".join(f"{i % 7},{i % 5},{0.5 if i < 40 else 1e9}\n" for i in range(60)))
EOP
run 0 train mlp --data subset.csv --loss mean_squared_error --set hidden=4 --subset 4 --batch 4 --epochs 2 --out subset
says "$out" '^test loss [0-9]{1,3}\.'
run 0 train recsys --set rows=50 --set tables=3 --batch 64 --steps 3 --out recsys
says "$out" '^test accuracy'
run 0 train recsys --set kind=two-tower --set rows=50 --batch 64 --steps 3 --out two_tower
says "$out" '^test accuracy'
run 2 train recsys --set kind=three-tower --out two_tower
says "$err" 'dlrm.*two-tower'
run 0 train unet --set size=16 --set widths=4 --set bottom=4 --subset 8 --batch 4 --steps 2 --out unet
says "$out" '^test mean intersection over union 0'
run 2 train unet --set size=33 --out none
says "$err" 'expected a height and width that are multiples of 8, got 33 x 33'
run 0 train separable-cnn --data shapes --set size=16 --set stem=4 --set blocks=4,4 --subset 16 --batch 8 --steps 2 --schedule cosine --clip-norm 1 --out separable
run 0 train resnet50 --set size=32 --set width=4 --subset 8 --batch 4 --steps 2 --optimizer adamw --weight-decay 0.1 --out resnet
if [ -e /usr/share/datasets/fashion-mnist ]; then
  run 0 train lstm --set units=8 --subset 32 --batch 16 --steps 2 --eager --out lstm
  run 0 train mlp --set hidden=8 --subset 64 --batch 16 --epochs 1 --accumulate 2 --threads 1 --checkpoint-every 1 --monitor-every 1 --out mlp
  [ -e mlp/checkpoints/step-3 ] || fault "--checkpoint-every 1"
fi

run 0 train recsys --loss binary_crossentropy --set rows=50 --set tables=3 --batch 64 --steps 3 --out clicks
run 2 train recsys --loss sparse_categorical_crossentropy --steps 3 --out none

# A run that an older version began did not name the model's loss, nor sizes that nobody had set.
older=(recsys --set rows=50 --set tables=3 --batch 64 --out recsys)
python3 - << 'EOP' || fault "config.json of recsys"
import json
config = json.load(open("recsys/config.json"))
assert config["loss"] == "binary_crossentropy" and config["sizes"]["bottom"] == "64,16", config
for key in ("sizes", "subset", "checkpoint_every", "monitor_every"): del config[key]
config["loss"] = "the model's own"
json.dump(config, open("recsys/config.json", "w"))
EOP
run 1 train "${older[@]}" --steps 4 --loss huber --resume
says "$err" 'the run in recsys has loss "binary_crossentropy", got "huber"'
run 0 train "${older[@]}" --steps 4 --resume
says recsys/config.json '"loss": "binary_crossentropy"'

# Runs that begin in the same second have folders of their own.
children=()
for seed in 1 2 3; do
  "$program" train "${small[@]}" --steps 1 --seed $seed > /dev/null 2> "$err" &
  children+=($!)
done
for child in "${children[@]}"; do wait "$child" || { fault "a run beside others"; cat "$err"; }; done
[ "$(ls -d runs/cnn-* | wc -l)" -eq 3 ] || fault "three runs must have three folders"

# Data of one's own: the last column of a table is the label; arrays by name.
python3 - << 'EOP'
with open("rows.csv", "w") as file:
    file.write("a,b,label\n" + "".join(f"{i % 7},{i % 5},{(i % 7) / 7}\n" for i in range(60)))
EOP
run 0 train mlp --data rows.csv --loss mean_squared_error --set hidden=4 --set classes=1 --batch 8 --epochs 2 --out csv
says "$out" '^test loss [0-9]'

# Classes of pixels go with other losses too.
run 0 train unet --loss dice --set size=16 --subset 8 --batch 4 --steps 2 --out dice
says "$out" '^test mean intersection over union 0\.'

# A run that has nothing left to do leaves its end as it was.
tail -1 whole/log.jsonl > end.json
run 0 train "${small[@]}" --steps 9 --memory-budget 4MiB --out whole --resume
diff <(tail -1 whole/log.jsonl) end.json || fault "going on with a run that has ended changed its end"

# So does one that was killed after its last checkpoint.
cp -r whole unended && sed -i '$d' unended/log.jsonl
run 0 train "${small[@]}" --steps 9 --memory-budget 4MiB --out unended --resume
[ "$(tail -1 unended/log.jsonl | grep -o '"loss":[^,]*,"metric":[^,]*')" = "$(grep -o '"loss":[^,]*,"metric":[^,]*' end.json)" ] ||
  fault "the loss of the last step is that of the run"

# One that has more steps than are asked for keeps them, and says so.
for fewer in '--steps 4' '--epochs 1'; do
  run 0 train "${small[@]}" $fewer --memory-budget 4MiB --out whole --resume
  says "$err" '^warning: the run in whole has 9 steps already, more than the [46] asked for: it stays as it is$'
  says whole/config.json '"epochs": 2,'
  says whole/config.json '"steps": 9,'
  [ "$(grep -c '"grad_norm"' whole/log.jsonl)" = 9 ] || fault "$fewer must not cut the log"
  [ -e whole/checkpoints/step-9 ] || fault "$fewer must not take steps back"
done

# The shorter of --steps and --epochs is what a run has, and what its schedule is for.
run 0 train "${small[@]}" --steps 500 --epochs 1 --schedule linear --out shorter
says "$err" ': 96 examples, 6 steps of 16$'
python3 - << 'EOP' || fault "--steps beyond --epochs"
import json
assert json.load(open("shorter/config.json"))["steps"] == 6
assert json.loads(open("shorter/log.jsonl").readlines()[-1])["steps"] == 6
EOP

# A reader that goes away ends the run, which is saved.
"$program" train "${small[@]}" --epochs 100000 --json --out unread 2> "$err" | head -1 > /dev/null
[ "${PIPESTATUS[0]}" -eq 1 ] || fault "nobody reads: status 1"
says "$err" 'training stopped: standard output takes no more lines'
[ "$(cat unread/checkpoints/latest)" = "step-$(grep -c grad_norm unread/log.jsonl)" ] || fault "nobody reads: the last step must be saved"

# One who does not read its messages does not end it: Ctrl-C ends the tee of `2>&1 | tee log` before the run.
{ "$program" train "${small[@]}" --epochs 2 --out untold 2>&1 > "$out"; echo $? > "$folder/status"; } | true
[ "$(cat "$folder/status")" -eq 0 ] || fault "messages that nobody reads ended the run with $(cat "$folder/status")"
says untold/log.jsonl '"final":true'

# A test that is not finite is told, and where; no score of a grid can be the best then.
python3 - << 'EOP'
with open("holes.csv", "w") as file:
    for i in range(40):
        file.write(f"{'nan' if i == 29 else i % 7},{i % 3},{i % 2}\n")
EOP
run 0 train mlp --data holes.csv --set hidden=4 --batch 8 --epochs 2 --out holes
[ "$(grep -c 'val_loss is nan' "$err")" -eq 1 ] || fault "a validation that is nan is to be told once"
says "$err" 'holes.csv: example 29$'
run 1 tune mlp --data holes.csv --set hidden=4 --batch 8 --loss mean_squared_error --grid lr=1e-3,1e-2
says "$err" 'all runs failed, the first one with: test loss nan'

# What cannot be done is said: 1 for what fails, 2 for wrong usage; nothing on standard output.
run 1 train "${small[@]}" --steps 1 --out whole
says "$err" 'there is a run in whole already'
run 1 train "${small[@]}" --steps 1 --out nowhere --resume
run 1 train "${small[@]}" --steps 12 --seed 5 --memory-budget 4MiB --out whole --resume
says "$err" 'has seed 0, got 5'
run 1 train "${small[@]}" --steps 12 --lr 0.5 --memory-budget 4MiB --out whole --resume
says "$err" 'has lr 0.001, got 0.5'
cp -r cut2 damaged && echo '{' > damaged/config.json
run 1 train "${small[@]}" --steps 12 --memory-budget 4MiB --out damaged --resume
says "$err" 'damaged/config.json is damaged: it is no JSON object'
cp -r cut2 gone && rm -r gone/checkpoints/*
cp -r gone before
run 1 train "${small[@]}" --steps 12 --memory-budget 4MiB --out gone --resume
says "$err" 'the run in gone has 9 steps in its log, but there is no checkpoint in gone/checkpoints to go on from'
says "$err" 'hint: .*begin another run with another --out, or remove the folder'
diff -r gone before || fault "a run without checkpoints must be left as it was"

# A run that was killed before its first checkpoint has nothing to go on from, and begins anew: the same bits.
cp -r cut7 killed && rm -r killed/checkpoints/* && touch killed/report.html.tmp-1-1 killed/config.json.new
sed -i '6,$d' killed/log.jsonl
run 0 train "${small[@]}" --steps 9 --memory-budget 4MiB --out killed --resume
says "$err" '^warning: the run in killed ended before its first checkpoint: it begins anew$'
cmp -s whole/checkpoints/step-9/model.safetensors killed/checkpoints/step-9/model.safetensors || fault "beginning anew changed the run"
diff <(losses whole) <(losses killed) > /dev/null || fault "beginning anew changed the log"
[ -z "$(ls killed | grep -E 'tmp|new')" ] || fault "what a killed process left is to be swept"
run 1 train "${small[@]}" --steps 1 --out /proc/nowhere
says "$err" 'cannot write to /proc/nowhere'
run 1 train "${small[@]}" --device cuda:0 --out cuda
says "$err" 'thalweg devices'
run 1 train "${small[@]}" --memory-budget 1KiB --steps 1 --out small
says "$err" 'smallest feasible budget'
smallest=$(grep -oE 'smallest feasible budget [0-9]+' "$err")
cp -r small begun
run 0 train "${small[@]}" --memory-budget 4MiB --steps 1 --out begun --resume
run 0 train cnn --data shapes --subset 96 --batch 8 --set filters=4 --set size=12 --set channels=3 --steps 1 --out small  # nothing of the first try could be lost
run 0 plan cnn --batch 16 --set filters=4 --set hidden=8 --set size=12 --set channels=3 --set classes=3 --memory-budget 1KiB
says "$out" "$smallest bytes"
run 1 train cnn --data nothing.bin --out none
run 1 train "${small[@]}" --lr 1e30 --optimizer sgd --steps 20 --out wild
says "$err" 'training stopped: the loss of step'
for arguments in 'train' 'train nonsense' 'train cnn --epochs 0' 'train cnn --optimizer nonsense' 'train cnn --set nonsense=1' \
                 'train cnn --clip-norm 1 --clip-value 1' 'train cnn --resume' 'train gpt' 'train cnn --memory-budget 1GB' \
                 'train mlp --data shapes' 'train cnn --eager --precision bf16' 'train cnn --eager --memory-budget 1GiB' 'tune cnn --grid lr' 'train cnn --precision f8' \
                 'train cnn --lr nan' 'train cnn --seed -1' 'tune cnn --grid lr=-1' 'tune cnn --grid precision=f8' \
                 'tune cnn --grid nonsense=1' 'tune cnn --grid lr=1 --grid lr=2' 'tune cnn --grid batch=0,32' \
                 'tune cnn --grid memory-budget=abc,1MiB'; do
  run 2 $arguments
  silent "$out"
  says "$err" '^error: '
done
run 2 train cnn --epochs x
says "$err" '^error: --epochs: expected a whole number above 0, got "x"$'
says "$err" '^try: thalweg train --help$'
run 2 nonsense mlp
says "$err" '^error: there is no command "nonsense"$'
run 2 tran mlp
says "$err" '^error: there is no command "tran", did you mean train[?]$'
run 2 train cnn --clip-nrom 1
says "$err" '^error: there is no option --clip-nrom, did you mean --clip-norm[?]$'
run 2 train cnn --rate=1
says "$err" '^error: there is no option --rate$'
run 2 tune cnn --grid lr=1e-3,,1e-2
says "$err" '^error: expected values between the commas of --grid lr=1e-3,,1e-2, got none$'

# The variable of a shell that is not set asks for nothing, and is not to be taken for a default.
for option in --data --out --memory-budget; do
  run 2 train "${small[@]}" --steps 1 $option ''
  says "$err" "^error: $option: expected "
done
run 2 tune "${small[@]}" --steps 2 --svg ''
run 2 plan mlp --memory-budget ''

# A size takes one value, so that the model may come last.
run 0 plan --set hidden=4 mlp
run 0 train --set filters=4 --set size=12 cnn --data shapes --subset 16 --steps 1 --out last

# Names that are not UTF-8, in files and lines for tools too.
run 0 train "${small[@]}" --steps 2 --out $'name\xe9' --json
[ "$(tail -1 "$out" | python3 -c 'import json; print(json.loads(input())["out"])')" = 'name�' ] || fault "out that is not UTF-8"
[ -e $'name\xe9/checkpoints/step-2' ] || fault "a folder that is not UTF-8"

# Numbers that are far too large count as many.
run 0 train "${small[@]}" --epochs 9223372036854775807 --steps 2 --out many
says "$err" ': 96 examples, 2 steps of 16$'
run 0 train "${small[@]}" --steps 2 --accumulate 5 --out none_made
says "$err" '^warning: no update is made: the run ends before --accumulate 5 batches are together$'

# Steps that run op by op have a measured peak, and no plan.
run 0 train "${small[@]}" --steps 2 --eager --out eager --json
says "$out" '"peak_bytes_planned":null,"peak_bytes_measured":[1-9][0-9]+,'
says eager/report.html 'they have no plan, and there is no plan.svg'
[ ! -e eager/plan.svg ] || fault "eager steps have no plan"

exit $((faults > 0))
