#!/usr/bin/env bash
# bench_test.sh PROGRAM SOURCE_FOLDER: what `thalweg bench` lists, prints and refuses.
set -uo pipefail
program=$1 source=$2
folder=$(mktemp -d)
out=$folder/stdout err=$folder/stderr
trap 'rm -rf "$folder"' EXIT
. "$(dirname "$0")/support.sh"

# The workloads of the page that defines them, in its order.
run 0 bench --list
silent "$err"
sed -nE 's/^\| `([a-z0-9-]+)` \| .* \| (rows|images|tokens|sequences) \|$/\1/p' "$source/bench/peers/README.md" > "$folder/defined"
[ -s "$folder/defined" ] || fault "no workloads in bench/peers/README.md"
diff "$out" "$folder/defined" || fault "bench --list and bench/peers/README.md differ"
run 0 bench --list --json
python3 - "$out" "$source/bench/peers/README.md" << 'EOP' || fault "bench --list --json"
import json, re, sys
kinds = [json.loads(line) for line in open(sys.argv[1])]
page = dict(re.findall(r"^\| `([a-z0-9-]+)` \| ([0-9.]+) \|$", open(sys.argv[2]).read(), re.MULTILINE))
assert {kind["workload"]: kind["gflop"] for kind in kinds if kind["gflop"]} == {k: float(v) for k, v in page.items()}, page
assert [kind["workload"] for kind in kinds if kind["bf16"]] == ["mlp", "cnn", "gpt-nano", "resnet50"]
EOP

# The keys of the programs in bench/peers, and numbers that make sense.
cat > "$folder/check.py" << 'EOP'
import json, re, sys
peer = open(sys.argv[2] + "/bench/peers/torch_cpu.py").read()
keys = re.findall(r"(\w+)=", peer[peer.index("print(json.dumps(dict(") :].split("if __name__")[0])
for line, (workload, mode, params) in zip(open(sys.argv[1]), json.loads(sys.argv[3]), strict=True):
    found = json.loads(line)
    assert list(found) == keys, (list(found), keys)
    assert (found["engine"], found["workload"], found["mode"]) == ("thalweg", workload, mode), found
    assert (found["precision"], found["threads"], found["params"]) == ("f32", 2, params), found
    assert 0 < found["step_ms_min"] <= found["step_ms_median"] and found["items_per_s"] > 0 and found["steps"] >= 2
    assert found["peak_rss_mb"] > 0 and found["first_step_s"] >= 0
    assert workload.startswith("pipeline") or found["loss_last"] < found["loss_first"], found
EOP
run 0 bench mlp-tiny cnn pipeline-batched --seconds 0.1 --json
silent "$err"
python3 "$folder/check.py" "$out" "$source" '[["mlp-tiny", "compiled", 71], ["cnn", "compiled", 225034], ["pipeline-batched", "compiled", 0]]' ||
  fault "bench --json"
run 0 bench mlp-tiny --seconds 0.1 --mode eager --json
python3 "$folder/check.py" "$out" "$source" '[["mlp-tiny", "eager", 71]]' || fault "bench --mode eager"
run 0 bench mlp-tiny --seconds 0.1 --threads 1 --no-check
says "$out" '^workload +step ms +least ms'
says "$out" '^mlp-tiny +[0-9.]+ +[0-9.]+'

# What makes no sense is refused, with a list of what does.
run 2 bench nonsense
says "$err" 'there is no workload "nonsense"'
says "$err" 'workloads are mlp-tiny, mlp, cnn'
run 2 bench
says "$err" 'expected a workload, or --list'
run 2 bench mlp-tiny --precision bf16
says "$err" 'expected --precision f32 for the workload mlp-tiny'
run 2 bench mlp --precision bf16 --mode eager
run 2 bench mlp --mode nonsense
run 2 bench mlp --threads 0
run 1 bench mlp --device cuda:0
says "$err" 'there is no device "cuda:0"'
"$program" bench mlp-tiny --seconds 0 --json > /dev/full 2> "$err"
[ $? -eq 1 ] || fault "a full disk must be a failure"

exit $((faults > 0))
