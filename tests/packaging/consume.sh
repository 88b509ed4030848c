#!/usr/bin/env bash
# consume.sh find_package|pkg_config BUILD_DIR: installs the build, moves the prefix, builds the consumer against that
# prefix alone, and runs it under the installed hmcrun.
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
# The package must not export its internal dependencies, or a path of the build machine.
if grep -rnE --exclude='hmc-static.*' 'fmt|ucx|hwloc|OpenSSL|nlohmann|CLI11|hmc_flags' "$prefix"/lib*/cmake "$prefix"/lib*/pkgconfig; then
  echo "the package exports the library's internal dependencies" >&2
  exit 1
fi
if grep -rlF -e "$build" -e "$work/first" "$prefix"/lib*/cmake "$prefix"/lib*/pkgconfig; then
  echo "the package contains the path of the build" >&2
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
    # pkgconf escapes the space in the path for a shell, so a shell must parse it.
    flags=$(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs hmc)
    rpath=$(PKG_CONFIG_PATH=$libdir pkg-config --variable=libdir hmc)
    eval "c++ -std=c++20 '$here/consumer.cpp' -o '$work/build/consumer_cpp' $flags '-Wl,-rpath,${rpath//\\/}'"
    # Also the README's program, with the README's command.
    # shellcheck disable=SC2016
    sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$here/../../README.md" >"$work/ring.cpp"
    "$prefix/bin/hmcc++" "$work/ring.cpp" -o "$work/build/consumer_readme"
    # A program of HAMR.
    eval "c++ -std=c++20 -fopenmp '$here/../compat/hamr_hello.cpp' -o '$work/build/consumer_hamr' $flags '-Wl,-rpath,${rpath//\\/}'"
    # A program of the older library: its headers, those of its sources, and its library's name.
    mkdir "$work/older"
    eval "c++ -std=c++14 '$here/../compat/dialect.cpp' -o '$work/older/program' ${flags/-lhmc/-lhmc_shared_lib} \
      '-I$prefix/include/hmc/older/src' '-Wl,-rpath,${rpath//\\/}'"
    (cd "$work/older" && ./program)
    eval "cc -std=c99 -pedantic '$here/consumer.c' -o '$work/build/consumer_c' $flags '-Wl,-rpath,${rpath//\\/}'"
    # The compiler commands of this prefix have the same flags.
    "$prefix/bin/hmcc++" "$here/consumer.cpp" -o "$work/build/consumer_hmccxx"
    "$prefix/bin/hmcc" -std=c99 -pedantic "$here/consumer.c" -o "$work/build/consumer_hmcc"
    shown=$("$prefix/bin/hmcc++" --show "$here/consumer.cpp")
    words=()
    eval "words=($(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs hmc))"
    for word in "${words[@]}"; do
      case $word in -I* | -L*) word=${word:0:2}$(realpath "${word:2}") ;; esac
      [[ $shown == *"$word"* ]] || { echo "hmcc++ --show lacks $word: $shown" >&2; exit 1; }
    done
    [[ $("$prefix/bin/hmcc" --show -c x.c) != *-lhmc* ]] || { echo "hmcc -c links" >&2; exit 1; }
    # Without a run path the program finds the library of the hmcrun that starts it, and of no other place.
    mkdir "$work/bare"
    eval "c++ -std=c++20 '$here/consumer.cpp' -o '$work/bare/consumer' $flags"
    ! "$work/bare/consumer" 2>/dev/null || { echo "a program without a run path runs without hmcrun" >&2; exit 1; }
    "$prefix/bin/hmcrun" -np 2 --timeout 60 "$work/bare/consumer"
    LD_LIBRARY_PATH=/no/such/folder "$prefix/bin/hmcrun" -np 1 -x A=1 --dry-run "$work/bare/consumer" | grep -F 'LD_LIBRARY_PATH='
    if "$prefix/bin/hmcrun" -np 1 --dry-run "$work/build/consumer_cpp" | grep LD_LIBRARY_PATH; then exit 1; fi
    # MemFabric's programs find headers and libraries below the folder that set_env.sh names, in the form of each release.
    (
      # shellcheck disable=SC1091
      source "$prefix/share/hmc/memfabric_hybrid/set_env.sh"
      home=$MEMFABRIC_HYBRID_HOME_PATH
      for form in host first_release/host; do
        cc -std=c99 -I"$home/include/smem/$form" -I"$home/$(uname -m)-linux/include/smem/host" -I"$home/include/hybm" \
          "$here/../compat/memfabric/headers.c" -o "$work/bare/memfabric" -L"$home/$(uname -m)-linux/lib64" \
          -lmf_smem -lmf_hybm_core
        "$work/bare/memfabric"
      done
    )
    static=$(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs hmc-static)
    eval "c++ -std=c++20 '$here/consumer.cpp' -o '$work/build/consumer_static' $static"
    ;;
esac

"$prefix/bin/hmcinfo" --version
if ldd "$work/build/consumer_static" | grep libhmc; then
  echo "the static consumer needs libhmc.so" >&2
  exit 1
fi
for consumer in "$work"/build/consumer_*; do
  "$consumer"
  "$prefix/bin/hmcrun" -np 2 --timeout 60 "$consumer"
done
