#!/usr/bin/env bash
# install.sh BUILD FRESH PREFIX: installs into FRESH, then moves the whole to PREFIX: a package must bear that.
set -euo pipefail
rm -rf "$2" "$3"
cmake --install "$1" --prefix "$2" --strip > /dev/null
mv "$2" "$3"
