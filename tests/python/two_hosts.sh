#!/usr/bin/env bash
# two_hosts.sh PROGRAM: runs the example of hmc.Session in two network namespaces that own their addresses, with
# HMC_SECRET. Exits with 77 if this machine can't make namespaces.
set -euo pipefail
program=$1
# shellcheck source=tests/support/two_hosts.sh
source "$(dirname "$0")/../support/two_hosts.sh"
export UCX_NET_DEVICES=net0 # UCX may choose net1, on which the hosts don't reach each other
log=$(mktemp)
trap 'remove_hosts; rm -f "$log"' EXIT

# serve: starts the server and waits until it listens; sets $server.
serve() {
  ip netns exec "$a" timeout 120 python "$program" server 10.77.5.1 >"$log" 2>&1 &
  server=$!
  until grep -q 'server: waiting' "$log"; do
    kill -0 "$server" 2>/dev/null || { cat "$log" && exit 1; }
    sleep 0.05
  done
}

# Without the secret the other host is refused.
unset HMC_SECRET
serve
if said=$(on b env HMC_TIMEOUT_S=5 python "$program" client 10.77.5.1 2>&1); then
  echo "a process of another host was accepted without HMC_SECRET" >&2
  exit 1
fi
if [[ $said != *HMCStatusError* || $said != *INVALID_CONFIG* ]]; then
  echo "$said" >&2
  exit 1
fi
kill "$server"
wait "$server" || true

HMC_SECRET=$(random_secret)
export HMC_SECRET
for tls in 0 1; do
  export HMC_TLS=$tls
  serve
  on b python "$program" client 10.77.5.1
  wait "$server" || { cat "$log" && exit 1; }
  cat "$log"
done
