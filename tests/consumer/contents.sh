#!/usr/bin/env bash
# contents.sh PREFIX: what the installed package must hold, and what it must not.
set -euo pipefail
cd "$1"
faults=0
expect() {  # WHAT COMMAND…
  local what=$1
  shift
  if "$@"; then echo "good: $what"; else echo "FAULT: $what"; faults=$((faults + 1)); fi
}

library=$(find . -name 'libthalweg.so.*.*.*')
exported=$(nm -D --defined-only --demangle "$library")
foreign=$(cut -d ' ' -f 3- <<< "$exported" | grep -vE '^((vtable|typeinfo|typeinfo name) for )?thalweg::' || true)
bytes=$(stat -c %s "$library")
rpath=$(readelf -d "$library" | grep -E 'R(UN)?PATH' || true)

expect "exports something" test "$(wc -l <<< "$exported")" -gt 50
expect "exports only thalweg symbols${foreign:+ but also $foreign}" test -z "$foreign"
expect "the stripped library has $bytes bytes, under 10 MB" test "$bytes" -lt 10000000
expect "soname libthalweg.so.0" grep -q 'soname: \[libthalweg.so.0\]' <(readelf -d "$library")
expect "finds its neighbours by a relative path" grep -q '\[$ORIGIN\]' <<< "$rpath"
if readelf -d "$library" | grep -q libdnnl; then
  expect "oneDNN stands beside it" test -e "$(dirname "$library")/libdnnl.so.3"
  expect "oneDNN's licence" test -n "$(find share/doc -path '*onednn/LICENSE')"
fi
expect "its licence" test -n "$(find share/doc -name LICENSE)"
expect "the umbrella header" test -e include/thalweg/thalweg.h
expect "no header of the inside" test -z "$(find include -path '*backend/cpu*' -o -name check.h)"
expect "the command line runs" grep -q "cpu:0" <(bin/thalweg devices)
exit $((faults > 0))
