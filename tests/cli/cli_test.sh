#!/usr/bin/env bash
# cli_test.sh PROGRAM FAKE_DRIVER_FOLDER: outputs and exit statuses of the command line.
set -uo pipefail
program=$1 driver=$2
out=$(mktemp) err=$(mktemp) picture=$(mktemp)
trap 'rm -f "$out" "$err" "$picture"' EXIT
. "$(dirname "$0")/support.sh"

run 0 --version
says "$out" '^thalweg [0-9]+\.[0-9]+\.[0-9]+$'
run 0 --help
says "$out" 'devices'

run 0 devices
silent "$err"
for line in '^devices +cpu:0' '^processor +.' '^instruction sets +sse4.2' '^AMX +(absent|usable|announced)' \
            '^caches +level 1 data [0-9]+ KiB' '^cores +[1-9]' '^memory +[0-9.]+ [GT]iB' '^library +Highway 1' '^GPU not used +.'; do
  says "$out" "$line"
done

run 0 devices --json
silent "$err"
python3 - "$out" << 'EOP' || fault "devices --json"
import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert len(lines) == 1, lines
found = json.loads(lines[0])
assert found["devices"] == ["cpu:0"] and found["cpu"]["cores"] >= 1 and found["cpu"]["instruction_sets"]
assert 0 < found["memory"]["available"] <= found["memory"]["total"]
assert {library["name"] for library in found["libraries"]} >= {"Highway"} and found["gpu_reason"]
EOP

# Reasons why no GPU is used: no driver on most machines; with one, this build has no use for it.
[ -e /usr/lib/x86_64-linux-gnu/libcuda.so.1 ] || { run 0 devices && says "$out" 'no driver: libcuda.so.1 was not found'; }
LD_LIBRARY_PATH=$driver run 0 devices
says "$out" '^GPU +Imaginary GPU, 8 GiB'
says "$out" 'this build has no CUDA part'

# plan: a page of text, or one JSON object with the keys that tools rely on; an infeasible budget has an answer too.
run 0 plan mlp
silent "$err"
for line in '^plan of "train_step" \(f32 \[512, 784\], i32 \[512\]\)' '^  peak +[0-9.]+ MiB' 'everything kept' 'dense_1 matmul'; do
  says "$out" "$line"
done
plan_json() {  # STATUS ARGUMENTS… -- CONDITION over `found`
  local arguments=() status=$1
  shift
  while [ "$1" != -- ]; do arguments+=("$1"); shift; done
  run "$status" plan "${arguments[@]}" --json
  sed -i '/^warning: \[function\] b\{0,1\}f16 products: none that are fast/d' "$err"  # not every processor has them
  silent "$err"
  python3 - "$out" "$2" << 'EOP' || fault "plan ${arguments[*]} --json: $2"
import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert len(lines) == 1, lines
found = json.loads(lines[0])
assert found.keys() >= {"peak_bytes", "budget_bytes", "feasible", "micro_batches", "recomputed", "largest",
                        "smallest_feasible_bytes", "largest_batch"}, found
assert found["largest"] and all(item["name"] and item["bytes"] > 0 for item in found["largest"])
assert eval(sys.argv[2]), found
EOP
}
plan_json 0 mlp -- 'found["feasible"] and found["budget_bytes"] is None and found["largest_batch"] is None and found["batch"] == 512'
plan_json 0 mlp --batch 0010 -- 'found["batch"] == 10'
plan_json 0 cnn --batch 64 --memory-budget 10MiB -- \
  'found["feasible"] and found["peak_bytes"] <= found["budget_bytes"] == 10 << 20 and found["largest_batch"] >= 64'
plan_json 0 cnn --memory-budget 1048576 -- \
  'not found["feasible"] and found["smallest_feasible_bytes"] > 1 << 20 and found["largest_batch"] == 0'
plan_json 0 separable-cnn --memory-budget 16MiB -- 'not found["feasible"] and 0 < found["largest_batch"] < 64'
plan_json 0 gpt --set layers=2 --set width=64 --set heads=2 --batch 2 -- 'found["model"] == "gpt" and found["batch"] == 2'
plan_json 0 resnet50 --set width=8 --set size=64 -- '"mixes examples" in found["split_obstacle"]'
plan_json 0 mlp --precision f16 -- 'found["precision"] == "f16"'
plan_json 0 unet --set size=32 -- 'found["feasible"]'
plan_json 0 lstm --set units=16 -- 'found["feasible"]'
plan_json 0 recsys --set rows=100 -- 'found["feasible"]'
run 0 plan cnn --memory-budget 1MiB
says "$out" 'smallest feasible budget [0-9]+ bytes'
run 0 plan mlp --svg "$picture" --memory-budget 1.5GiB
says "$picture" '^<svg xmlns='
for command in 'plan gpt' "train gpt --data $0"; do
  run 1 $command --set layers=1000000000  # at once: before anything is built
  says "$err" '^error: \[gpt\] expected a model that fits .* got one that needs [0-9.]+ PiB or more, most of it because of "layers": .* of weights, .* of the state of adamw'
done
run 1 plan cnn --set size=1
says "$err" 'hint: take larger images, or fewer layers$'
run 1 plan mlp --svg /nowhere/plan.svg
says "$err" '^error: .*/nowhere/plan.svg'

# Wrong usage is 2 with a message on standard error alone; plain text there when it is no terminal.
run 2 --json devices
says "$err" '^error: expected --json behind the command$'
for arguments in '' 'nonsense' 'devices --nonsense' 'devices extra' 'plan' 'plan nonsense' 'plan mlp --set hidden' \
                 'plan mlp --set nonsense=1' 'plan mlp --memory-budget 1.5GB' 'plan mlp --memory-budget -1' 'plan mlp --batch 0' \
                 'plan mlp --precision f8' 'plan unet --set size=13'; do
  run 2 $arguments
  silent "$out"
  says "$err" '^error: '
  case $arguments in devices* | plan*) command="${arguments%% *} " ;; *) command= ;; esac
  says "$err" "^try: thalweg $command--help$"
done

"$program" devices > /dev/full 2> "$err"
[ $? -eq 1 ] || fault "a full disk must be a failure"
says "$err" 'could not write'

exit $((faults > 0))
