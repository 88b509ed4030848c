#!/usr/bin/env bash
# two_hosts.sh EXAMPLES: runs the programs of <hmc.h> as on two hosts: in two network namespaces that own their
# addresses, with HMC_SECRET. Exits with 77 if this machine can't make namespaces.
set -euo pipefail
examples=$1
a=hmc-test-a-$$ b=hmc-test-b-$$
skip() {
  echo "skipped: $*"
  exit 77
}
command -v ip >/dev/null || skip "no iproute2"
ip netns add "$a" 2>/dev/null || skip "this user can't make network namespaces"
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
}
trap cleanup EXIT
ip netns add "$b"
ip link add hmc-a netns "$a" type veth peer name hmc-b netns "$b" || skip "no veth devices"
for host in a b; do
  name=$a address=10.77.5.1
  [[ $host == a ]] || name=$b address=10.77.5.2
  ip -n "$name" address add "$address/24" dev "hmc-$host"
  ip -n "$name" link set "hmc-$host" up
  ip -n "$name" link set lo up
done
for host in a b; do # UCX ignores a device that isn't running yet
  name=$a
  [[ $host == a ]] || name=$b
  until ip -n "$name" link show "hmc-$host" | grep -q 'state UP'; do sleep 0.05; done
done
on() { ip netns exec "$@"; }

# both FIRST... -- SECOND...: the first program in namespace a, the second in b, at the same time.
both() {
  local first=()
  while [[ $1 != -- ]]; do
    first+=("$1")
    shift
  done
  shift
  on "$a" timeout 60 "${first[@]}" &
  local pid=$!
  on "$b" timeout 60 "$@"
  wait "$pid"
}

# Without the secret the other host is refused.
unset HMC_SECRET
ip netns exec "$a" timeout 60 "$examples/06_two_terminals" server 10.77.5.1 >/dev/null 2>&1 &
server=$! # without the function, so that this is the program
if on "$b" env HMC_TIMEOUT_S=5 timeout 60 "$examples/06_two_terminals" client 10.77.5.1 >/dev/null 2>&1; then
  echo "a process of another host was accepted without HMC_SECRET" >&2
  exit 1
fi
kill "$server" 2>/dev/null || true
wait "$server" 2>/dev/null || true

HMC_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export HMC_SECRET
both "$examples/06_two_terminals" server 10.77.5.1 -- "$examples/06_two_terminals" client 10.77.5.1
both "$examples/07_any_memory" receive 10.77.5.1 10.77.5.2 -- "$examples/07_any_memory" send 10.77.5.1
export HMC_TLS=1
both "$examples/06_two_terminals" server 10.77.5.1 -- "$examples/06_two_terminals" client 10.77.5.1
