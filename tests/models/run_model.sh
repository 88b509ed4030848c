#!/usr/bin/env bash
# run_model.sh [-O2] MODEL EXPECTED [-DNAME...]: Spin visits every state of a model. EXPECTED `holds` passes if all
# states were visited without an error. Any other word passes only if Spin reports an error of that name ("assertion
# violated", "invalid end state"). -O2: for more than a million states. Fewer are visited, and a seeded bug is found, in
# less time than an optimized build takes.
set -euo pipefail
optimize=-O0 table=20 depth=200000
if [[ $1 == -O2 ]]; then
  optimize=-O2 table=24 depth=2000000
  shift
fi
model=$(realpath "$1")
expected=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Spin's preprocessor searches included files in the current folder.
cp "$(dirname "$model")"/*.pml .
spin -a "$@" "$(basename "$model")" >spin.log 2>&1 || { cat spin.log; exit 1; }
# All states need up to 2.6 GB; compressed they would need a third of that, and 1.5 times the time.
cc "$optimize" -w -DSAFETY -DMEMLIM=4000 -o pan pan.c
./pan "-m$depth" "-w$table" >pan.log 2>&1 || true
grep -E 'errors:|states, stored|elapsed time|actual memory|total actual|pan:|error:' pan.log || cat pan.log
if [[ $expected != holds ]]; then
  grep -q "^pan:1: $expected" pan.log && grep -Eq 'errors: [1-9]' pan.log && exit 0
  echo "Spin didn't find: $expected"
  exit 1
fi
if ! grep -q 'errors: 0' pan.log; then
  ./pan -r -n 2>&1 | tail -60
  exit 1
fi
# An incomplete search proves nothing.
if grep -Eq 'max search depth too small|Search not completed|out of memory' pan.log; then
  cat pan.log
  exit 1
fi
