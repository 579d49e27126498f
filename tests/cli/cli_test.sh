#!/usr/bin/env bash
# cli_test.sh PROGRAM FAKE_DRIVER_FOLDER: outputs and exit statuses of the command line.
set -uo pipefail
program=$1 driver=$2
out=$(mktemp) err=$(mktemp)
trap 'rm -f "$out" "$err"' EXIT
faults=0

run() {  # STATUS ARGUMENTS…
  local wanted=$1 status
  shift
  "$program" "$@" > "$out" 2> "$err"
  status=$?
  [ "$status" -eq "$wanted" ] || fault "thalweg $* left with $status instead of $wanted"
}
fault() { echo "FAULT: $1"; faults=$((faults + 1)); }
says() { grep -qE "$2" "$1" || { fault "expected $2 in:"; cat "$1"; }; }
silent() { [ ! -s "$1" ] || { fault "expected nothing, got:"; cat "$1"; }; }

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

# Wrong usage is 2 with a message on standard error alone; plain text there when it is no terminal.
for arguments in '' 'nonsense' 'devices --nonsense' 'devices extra'; do
  run 2 $arguments
  silent "$out"
  says "$err" '^error: '
  says "$err" '^try: thalweg --help'
done

"$program" devices > /dev/full 2> "$err"
[ $? -eq 1 ] || fault "a full disk must be a failure"
says "$err" 'could not write'

exit $((faults > 0))
