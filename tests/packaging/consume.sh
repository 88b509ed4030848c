#!/usr/bin/env bash
# consume.sh find_package|pkg_config BUILD_DIR: installs the build, moves the prefix, builds the consumer
# against it with nothing else known, and runs it under the installed hmcrun.
set -euo pipefail
how=$1
build=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mkdir "$work/second"
mv "$work/first" "$work/second/moved here"
prefix="$work/second/moved here"
# The rooms' own libraries must not reach the consumer, nor a path of the machine that built this.
if grep -rnE 'fmt|ucx|hwloc|OpenSSL|nlohmann|CLI11|hmc_flags' "$prefix"/lib*/cmake "$prefix"/lib*/pkgconfig; then
  echo "the package tells its consumers what the library stands on" >&2
  exit 1
fi
if grep -rlF -e "$build" -e "$work/first" "$prefix"/lib*/cmake "$prefix"/lib*/pkgconfig; then
  echo "the package names the place where it was built" >&2
  exit 1
fi

case $how in
  find_package)
    cmake -G Ninja -S "$here/find_package" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    cmake --build "$work/build"
    ;;
  pkg_config)
    mkdir "$work/build"
    libdir=$(find "$prefix" -name pkgconfig)
    # pkgconf escapes the space in the path for a shell, so a shell has to read it.
    flags=$(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs hmc)
    rpath=$(PKG_CONFIG_PATH=$libdir pkg-config --variable=libdir hmc)
    eval "c++ -std=c++20 '$here/consumer.cpp' -o '$work/build/consumer_cpp' $flags '-Wl,-rpath,${rpath//\\/}'"
    # The README's program too, compiled as the README says.
    # shellcheck disable=SC2016
    sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$here/../../README.md" >"$work/ring.cpp"
    eval "c++ -std=c++20 '$work/ring.cpp' -o '$work/build/consumer_readme' $flags '-Wl,-rpath,${rpath//\\/}'"
    eval "cc -std=c99 -pedantic '$here/consumer.c' -o '$work/build/consumer_c' $flags '-Wl,-rpath,${rpath//\\/}'"
    ;;
esac

"$prefix/bin/hmcinfo" --version
for consumer in "$work"/build/consumer_*; do
  "$consumer"
  "$prefix/bin/hmcrun" -np 2 --timeout 60 "$consumer"
done
