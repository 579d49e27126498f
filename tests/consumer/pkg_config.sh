#!/usr/bin/env bash
# pkg_config.sh PREFIX OUT: builds the consumer with make and pkg-config, and runs it.
set -euo pipefail
mkdir -p "$2"
PKG_CONFIG_PATH=$(dirname "$(find "$1" -name thalweg.pc)") make -s -C "$(dirname "$0")/pkg_config" OUT="$2"
"$2/consumer"
