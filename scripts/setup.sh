#!/usr/bin/env bash
# Installs what the build needs: the Debian packages of packages.txt and the wheels of wheels.txt (unpacked into
# build/deps, nothing is installed into Python). Does nothing, and needs no network, when all is there.
#   setup.sh          for building and testing
#   setup.sh tools    for make format and make tidy
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
deps=$here/../build/deps

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

require_packages() {  # LIST
  local wanted missing=()
  mapfile -t wanted < "$1"
  command -v dpkg-query > /dev/null ||
    fail "This is no Debian system: bring the counterparts of ${wanted[*]}, then say SETUP=no to make."
  for package in "${wanted[@]}"; do
    grep -qxF "$package install ok installed" <<< "$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] ||
    fail "These packages are missing. Install them with:" \
         "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  echo "installing ${missing[*]}"
  apt-get update -qq || echo "apt-get update failed; trying with the lists that are there" >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null ||
    fail "Could not install ${missing[*]}: is the package mirror reachable?"
}

# The first python3 that has pip; the one of the packages has.
python_with_pip() {
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version > /dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  fail "python3 has no pip. Install it with:" "  sudo apt-get install -y python3-pip"
}

# Everything happens in a folder beside and is renamed at the end, so that a broken download leaves nothing behind.
unpack_wheels() {
  local python fresh
  python=$(python_with_pip)
  mkdir -p "$deps"
  fresh=$(mktemp -d "$deps/fresh.XXXXXX")
  trap "rm -rf '$fresh'" EXIT
  echo "unpacking oneDNN into build/deps"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --retries 5 --require-hashes \
    -r "$here/wheels.txt" -d "$fresh/wheels" || fail "Could not download the wheels of scripts/wheels.txt."
  mkdir "$fresh/onednn"
  for wheel in "$fresh"/wheels/*.whl; do
    "$python" -m zipfile -e "$wheel" "$fresh/unpacked"
  done
  for part in "$fresh"/unpacked/*.data/data; do cp -r "$part"/. "$fresh/onednn/"; done
  # The wheel carries the same library three times; two links save 110 MB.
  (cd "$fresh/onednn/lib" && ln -sf libdnnl.so.3.2 libdnnl.so.3 && ln -sf libdnnl.so.3 libdnnl.so)
  rm -rf "$deps/onednn"
  mv "$fresh/onednn" "$deps/onednn"
  cp "$here/wheels.txt" "$deps/wheels.stamp"
}

installed=$(dpkg-query -W -f='${Package} ${Status}\n' 2> /dev/null || true)
if [ "${1:-}" = tools ]; then
  require_packages "$here/tools.txt"
else
  require_packages "$here/packages.txt"
  cmp -s "$here/wheels.txt" "$deps/wheels.stamp" || unpack_wheels
fi
