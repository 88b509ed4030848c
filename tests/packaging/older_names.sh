#!/usr/bin/env bash
# older_names.sh SOURCE_DIR: the build of HMC's older library: its scripts call ./dev, and its CMake options are answered.
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/copy/build/wheel" "$work/bin"
cp "$source_dir"/build.sh "$source_dir"/build_with_python.sh "$work/copy"
touch "$work/copy/build/wheel/hmc-1.whl"
for name in copy/dev bin/python3; do
  # shellcheck disable=SC2016
  printf '#!/bin/sh\necho "${0##*/} $*" >>"%s/calls"\n' "$work" >"$work/$name"
  chmod +x "$work/$name"
done
PATH=$work/bin:$PATH
cd /
"$work/copy/build.sh"
"$work/copy/build.sh" /a/prefix
"$work/copy/build_with_python.sh"
diff - "$work/calls" <<EOF
dev install $work/copy/build/prefix
dev install /a/prefix
dev wheel $work/bin/python3
python3 -m pip install --force-reinstall build/wheel/hmc-1.whl
EOF

PATH=${PATH#*:}
cmake -G Ninja -S "$source_dir" -B "$work/build" -DBUILD_STATIC_LIB=ON -DBUILD_PYTHON_MOD=ON -DHMC_BUILD_TESTS=OFF \
  -DHMC_BUILD_BENCH=OFF -DHMC_BUILD_EXAMPLES=OFF >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
for text in "BUILD_PYTHON_MOD: the wheel contains the compiled module" "libhmc.a and libhmc.so are always built"; do
  grep -F "$text" "$work/output" || { cat "$work/output"; exit 1; }
done
