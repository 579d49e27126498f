#!/usr/bin/env bash
# Installs what the build needs: the Debian packages of packages.txt and the wheels of wheels.txt (unpacked into
# build/deps, nothing is installed into Python). Does nothing when all is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
deps=$here/../build/deps

missing=()
while read -r package; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done < "$here/packages.txt"
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "These packages are missing. Install them with:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
    exit 1
  fi
  echo "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi

stamp=$deps/wheels.stamp
if ! cmp -s "$here/wheels.txt" "$stamp"; then
  echo "unpacking oneDNN into build/deps"
  rm -rf "$deps/wheels" "$deps/onednn"
  mkdir -p "$deps/wheels" "$deps/onednn"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -r "$here/wheels.txt" -d "$deps/wheels"
  for wheel in "$deps"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$deps/wheels/unpacked"
  done
  for part in "$deps"/wheels/unpacked/*.data/data; do cp -r "$part"/. "$deps/onednn/"; done
  # The wheel carries the same library three times; two links save 110 MB.
  (cd "$deps/onednn/lib" && ln -sf libdnnl.so.3.2 libdnnl.so.3 && ln -sf libdnnl.so.3 libdnnl.so)
  rm -rf "$deps/wheels"
  cp "$here/wheels.txt" "$stamp"
fi
