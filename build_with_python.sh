#!/usr/bin/env bash
# build_with_python.sh: the name of these commands in HMC's older library. Builds the Python package and installs it for
# python3.
set -euo pipefail
cd "$(dirname "$0")"
./dev wheel "$(command -v python3)"
exec python3 -m pip install --force-reinstall build/wheel/hmc-*.whl
