#!/usr/bin/env bash
# build.sh [PREFIX]: the name of this command in HMC's older library. Builds and installs the library in PREFIX
# (build/prefix).
set -euo pipefail
cd "$(dirname "$0")"
exec ./dev install "${1:-$PWD/build/prefix}"
