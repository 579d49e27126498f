#!/usr/bin/env bash
# compare_test.sh SOURCE_FOLDER PROGRAMS_FOLDER: scripts/compare without any other framework.
set -uo pipefail
source=$1 programs=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
out=$folder/stdout err=$folder/stderr
faults=0
fault() { echo "FAULT: $1"; faults=$((faults + 1)); }
says() { grep -qE -- "$2" "$1" || { fault "expected $2 in:"; tail -20 "$1"; }; }
compare() { "$source/scripts/compare" --programs "$programs" --folder "$folder/peers" --no-install "$@" > "$out" 2> "$err"; }

compare mlp-tiny --peers torch,tf,jax --rounds 2 --seconds 0.05 --prefix 'env LC_ALL=C' --json "$folder/all.json" || fault "compare failed: $(tail -3 "$err")"
says "$out" '^peak of 2 threads: f32 [0-9.]+ GFLOP/s'
says "$out" '^workload +ours ms +best peer ms +which +ratio +at least'
says "$out" '^mlp-tiny +[0-9.]+ +not installed +- +- +8 +[0-9]+ % +- +[0-9.]+ +- +[0-9.]+ +-$'
says "$out" '^not installed: jax, tf, torch$'
says "$err" '^\[1/1\] mlp-tiny, round 2 of 2: thalweg compiled [0-9.]+ ms'
python3 - "$folder/all.json" << 'EOP' || fault "compare --json"
import json, sys
all_ = json.load(open(sys.argv[1]))
assert [run["workload"] for run in all_["runs"]] == ["mlp-tiny"] * 2 and not all_["failed"], all_
assert all_["limits"][-1]["threads"] == 2 and all_["limits"][-1]["f32_gflops"] > all_["limits"][0]["f32_gflops"] / 2
EOP
compare --from "$folder/all.json" || fault "compare --from failed"
says "$out" '^mlp-tiny '
compare nonsense && fault "an unknown workload was taken"
says "$err" 'there is no workload nonsense; workloads are mlp-tiny, mlp'
compare --peers nonsense && fault "an unknown peer was taken"
says "$err" 'there is no peer nonsense; peers are torch'
compare lstm --precision bf16 && fault "bf16 was taken for lstm"
says "$err" 'bf16 is for mlp, cnn, gpt-nano, resnet50'

exit $((faults > 0))
