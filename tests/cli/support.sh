# What the tests of the command line share; `program`, `out` and `err` are set by them.
faults=0

run() {  # STATUS ARGUMENTS…
  local wanted=$1 status
  shift
  "$program" "$@" > "$out" 2> "$err"
  status=$?
  [ "$status" -eq "$wanted" ] || { fault "thalweg $* left with $status instead of $wanted"; tail -3 "$err"; }
}
fault() { echo "FAULT: $1"; faults=$((faults + 1)); }
says() { grep -qE -- "$2" "$1" || { fault "expected $2 in:"; tail -5 "$1"; }; }
silent() { [ ! -s "$1" ] || { fault "expected nothing, got:"; cat "$1"; }; }
