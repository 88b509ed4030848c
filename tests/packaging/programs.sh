#!/usr/bin/env bash
# programs.sh BUILD_DIR: installs the build, moves the prefix, and runs every program from there; then builds the
# installed examples' sources and runs them.
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/first" >"$work/log"
! grep 'Not built' "$work/log" || fail "the build isn't complete"
mkdir "$work/second"
mv "$work/first" "$work/second/moved here"
prefix="$work/second/moved here"
run() { "$prefix/bin/hmcrun" -np 2 --timeout 60 "$@"; }

# ---- all programs, man pages and examples are installed
for program in hmcrun hmcinfo hmcc hmcc++ hmc-sim hmc-verify; do
  [[ -x $prefix/bin/$program ]] || fail "bin/$program isn't installed"
  [[ -s $prefix/share/man/man1/$program.1 ]] || fail "the man page $program.1 isn't installed"
done
for built in "$build"/bin/bench/hmc_*; do
  [[ -x $prefix/bin/${built##*/} ]] || fail "bin/${built##*/} isn't installed"
done
for built in "$build"/bin/examples/*; do
  [[ -x $prefix/libexec/hmc/examples/${built##*/} ]] || fail "the example ${built##*/} isn't installed"
  compgen -G "$prefix/share/hmc/examples/${built##*/}.c*" >/dev/null || fail "the source of ${built##*/} isn't installed"
done

# ---- the programs run with the library of this prefix, and contain no path of the build
"$(dirname "$0")/check_run_paths.py" "$prefix"
unset LD_LIBRARY_PATH
for program in "$prefix"/bin/* "$prefix"/libexec/hmc/examples/*; do
  if readelf -d "$program" 2>/dev/null | grep -E 'R(UN)?PATH' | grep -F "$build"; then
    fail "$program has a library path of the build"
  fi
  if ldd "$program" 2>/dev/null | grep -F libhmc.so | grep -vF "=> $prefix/"; then
    fail "$program doesn't use the installed libhmc.so"
  fi
done
for program in "$prefix"/bin/*; do
  "$program" --help >"$work/help" || fail "$program --help ended with $?"
  grep -q '^Usage:' "$work/help" || fail "$program --help prints no usage"
done
for example in "$prefix"/libexec/hmc/examples/*; do
  # Two programs without a launcher, and one that needs an accelerator: ctest example.*
  case $example in */06_* | */07_* | */13_*) continue ;; esac
  case $example in # they lose a rank
    */08_*) hmcrun_options=(--keep-going) ;;
    */09_*) hmcrun_options=(--respawn 1) ;;
    *) hmcrun_options=() ;;
  esac
  run "${hmcrun_options[@]}" "$example" >"$work/log" 2>&1 || fail "$example ended with $?: $(<"$work/log")"
done
run "$prefix/bin/hmc_allreduce" -c -m 8:64 -i 2 -x 1 >"$work/log"
grep -q 'Pass' "$work/log" || fail "hmc_allreduce didn't validate: $(<"$work/log")"
"$prefix/bin/hmc-sim" barrier --ranks 4 --algorithms dissemination >"$work/log"
grep -q '^[* ] dissemination .* us' "$work/log" || fail "hmc-sim predicted nothing: $(<"$work/log")"
"$prefix/bin/hmc-verify" --only allreduce:ring --size 3 >"$work/log"
grep -q 'all proved$' "$work/log" || fail "hmc-verify failed: $(<"$work/log")"

# ---- a user builds the examples
cmake -G Ninja -S "$prefix/share/hmc/examples" -B "$work/build" >/dev/null
cmake --build "$work/build" --target 03_allreduce 05_c_api # one of each language
for example in 03_allreduce 05_c_api; do
  ldd "$work/build/$example" | grep -F "=> $prefix/" >/dev/null || fail "the built $example uses another libhmc.so"
  run "$work/build/$example"
done
