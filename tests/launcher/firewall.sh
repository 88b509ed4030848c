#!/usr/bin/env bash
# firewall.sh REGROUP: jobs over two hosts with a firewall between them. The errors must ask for one, soon if the firewall
# answers. The hosts are network namespaces. Exits with 77 if this machine can't make them, or has no firewall.
set -euo pipefail
regroup=$1
# shellcheck source=tests/support/two_hosts.sh
source "$(dirname "$0")/../support/two_hosts.sh"
place=$(mktemp -d)
trap 'rm -rf "$place"; remove_hosts' EXIT
unset HMC_RANK HMC_SIZE
HMC_SECRET=$(random_secret)
export HMC_SECRET HMC_NET=net0 HMC_TRANSPORT=tcp HMC_STORE=10.77.5.1:41234 HMC_SIZE=4
PATH=$PATH:/usr/sbin
command -v nft >/dev/null || missing "no nftables"

# firewall HOST RULE...: the host's rules for what comes from the other host, in place of the former ones.
firewall() {
  local host=$1 rule
  shift
  {
    echo "flush ruleset"
    echo "table inet t {"
    echo "chain from_network {"
    echo "type filter hook input priority 0"
    for rule in "$@"; do echo "iifname net0 $rule"; done
    echo "}"
    echo "}"
  } >"$place/rules"
  on "$host" nft -f "$place/rules"
}
# job STATUS: ranks 0 and 1 on the first host, 2 and 3 on the second. Its errors are in $place/RANK.
job() {
  local rank pid status=0 pids=() of=(a a b b)
  for rank in 3 2 1 0; do
    on "${of[rank]}" env HMC_RANK="$rank" HMC_NODE="${of[rank]}" "$regroup" use >/dev/null 2>"$place/$rank" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  [[ $status == "$1" ]] || { cat "$place"/[0-3] && echo "FAILED: status $status" && exit 1; }
}
# says TEXT RANK...
says() {
  local text=$1 rank
  shift
  for rank in "$@"; do
    grep -q "$text" "$place/$rank" || { cat "$place"/[0-3] && echo "FAILED: rank $rank doesn't say '$text'" && exit 1; }
  done
}

for host in a b; do firewall "$host" accept 2>"$place/why" || missing "nft: $(head -n 1 "$place/why")"; done
export HMC_TIMEOUT_S=60
job 0
for answer in "reject with tcp reset" "reject with icmpx port-unreachable"; do
  echo "== the ranks' connections: $answer"
  for host in a b; do firewall "$host" "tcp dport 41234 accept" "tcp flags & (syn|ack) == syn $answer"; done
  start=$SECONDS
  job 1
  says "has no connection to rank .*firewall" 0 1 2 3
  # At 1 s on an idle machine; a firewall that doesn't answer is waited for for 30 s.
  [[ $((SECONDS - start)) -lt 20 ]] || { echo "FAILED: it took $((SECONDS - start)) s" && exit 1; }
done
export HMC_TIMEOUT_S=3
for answer in drop "reject with icmpx admin-prohibited"; do
  why="Connection timed out"
  [[ $answer == drop ]] || why="No route to host"
  echo "== the store: $answer"
  firewall a "tcp dport 41234 $answer"
  job 1
  says "while waiting for ranks 2, 3" 0 1
  # One of the ranks 2 and 3 runs their agent, which connects to the store.
  cat "$place/2" "$place/3" >"$place/agent"
  says "no store at 10.77.5.1:41234: $why" agent
done
