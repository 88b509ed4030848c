#!/usr/bin/env bash
# outage.sh HMCRUN APP ENDS SECONDS...: jobs over two hosts whose network goes away for each of these times. ENDS=one: on
# either host in turn, without a limit of time; ENDS=both: on each host, and the job must go on within a second; then each
# host is lost for good, which must be noticed in time. Exits with 77 if this machine can't make namespaces.
set -euo pipefail
hmcrun=$1 app=$2 ends=$3
shift 3
# shellcheck source=tests/support/two_hosts.sh
source "$(dirname "$0")/../support/two_hosts.sh"
place=$(mktemp -d)
trap 'rm -rf "$place"; remove_hosts' EXIT
unset HMC_SECRET HMC_RANK HMC_SIZE HMC_LOST_HOST_S
export HMC_TIMEOUT_S=60 HMC_NET=net0

make_launch_agent "$place/agent"

# outage HOST SECONDS MODE
outage() {
  local host=$b seconds=$2 mode=$3 time longest
  [[ $1 == a ]] && host=$a
  time=$(awk "BEGIN { print $seconds + 1.5 }")
  : >"$place/out"
  on a "$hmcrun" --launch-agent "$place/agent" -x HMC_TRANSPORT=tcp -H h1:2,h2:2 "$app" "$mode" "$time" >"$place/out" 2>&1 &
  await 1 ready "$place/out" "$!" || { cat "$place/out" && exit 1; }
  sleep 0.3
  ip -n "$host" link set net0 down
  sleep "$seconds"
  ip -n "$host" link set net0 up
  wait "$!" || { cat "$place/out" && echo "FAILED: $mode, $seconds s without network at $1" && exit 1; }
  longest=$(sed -n 's/.* took \([0-9]*\) ms/\1/p' "$place/out")
  echo "$mode, $seconds s without network at $1: the longest call took $longest ms"
  # 0.4 s for the start and the end of the outage, and for the call itself.
  if [[ $ends == both ]] && awk "BEGIN { exit !($longest > 1000 * $seconds + 1400) }"; then
    echo "FAILED: that is too long" && exit 1
  fi
}

# lost HOST: both parts of the job end; hmcrun runs on the first host.
lost() {
  local host=$b limit=3 status=0
  [[ $1 == a ]] && host=$a
  python3 -c 'import socket; socket.socket().getsockopt(socket.IPPROTO_TCP, 44)' 2>/dev/null || limit=6  # TCP_RTO_MAX_MS
  : >"$place/out"
  on a env HMC_LOST_HOST_S=2 "$hmcrun" --launch-agent "$place/agent" -x HMC_TRANSPORT=tcp -H h1:2,h2:2 "$app" allreduce 60 \
    >"$place/out" 2>&1 &
  await 1 ready "$place/out" "$!" || { cat "$place/out" && exit 1; }
  lose "$host" "$place/out" "$!"
  wait "$!" || status=$?
  ip -n "$host" link set net0 up
  echo "host $1 lost: noticed after $noticed ms"
  # HMC_LOST_HOST_S and a second; half a second for this script.
  if [[ $status != 125 || $noticed -gt $((limit * 1000 + 500)) ]]; then
    cat "$place/out" && echo "FAILED: status $status, noticed after $noticed ms" && exit 1
  fi
}

turn=a
for seconds in "$@"; do
  for mode in allreduce put silent; do
    if [[ $ends == both ]]; then
      for host in a b; do outage $host "$seconds" $mode; done
    else
      outage $turn "$seconds" $mode
      [[ $turn == a ]] && turn=b || turn=a
    fi
  done
done
if [[ $ends == both ]]; then
  lost a
  lost b
fi
