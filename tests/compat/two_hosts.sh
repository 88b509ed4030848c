#!/usr/bin/env bash
# two_hosts.sh EXAMPLES: runs the programs of <hmc.h> as on two hosts: in two network namespaces that own their
# addresses, with HMC_SECRET. Exits with 77 if this machine can't make namespaces.
set -euo pipefail
examples=$1
# shellcheck source=tests/support/two_hosts.sh
source "$(dirname "$0")/../support/two_hosts.sh"
export UCX_NET_DEVICES=net0 # UCX may choose net1, on which the hosts don't reach each other

# both FIRST... -- SECOND...: the first program in namespace a, the second in b, at the same time.
both() {
  local first=()
  while [[ $1 != -- ]]; do
    first+=("$1")
    shift
  done
  shift
  on a "${first[@]}" &
  local pid=$!
  on b "$@"
  wait "$pid"
}

# Without the secret the other host is refused.
unset HMC_SECRET
ip netns exec "$a" timeout 60 "$examples/06_two_terminals" server 10.77.5.1 >/dev/null 2>&1 &
server=$! # without the function, so that this is the program
if on b env HMC_TIMEOUT_S=5 "$examples/06_two_terminals" client 10.77.5.1 >/dev/null 2>&1; then
  echo "a process of another host was accepted without HMC_SECRET" >&2
  exit 1
fi
kill "$server" 2>/dev/null || true
wait "$server" 2>/dev/null || true

HMC_SECRET=$(random_secret)
export HMC_SECRET
both "$examples/06_two_terminals" server 10.77.5.1 -- "$examples/06_two_terminals" client 10.77.5.1
both "$examples/07_any_memory" receive 10.77.5.1 10.77.5.2 -- "$examples/07_any_memory" send 10.77.5.1
export HMC_TLS=1
both "$examples/06_two_terminals" server 10.77.5.1 -- "$examples/06_two_terminals" client 10.77.5.1
