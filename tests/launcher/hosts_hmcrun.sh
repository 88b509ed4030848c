#!/usr/bin/env bash
# hosts_hmcrun.sh HMCRUN KILLS REGROUP: `hmcrun -H` over two hosts, which are two network namespaces;
# `ip netns exec` takes the place of ssh. Exits with 77 if this machine can't make namespaces.
set -euo pipefail
hmcrun=$1 kills=$2 regroup=$3
# shellcheck source=tests/support/two_hosts.sh
source "$(dirname "$0")/../support/two_hosts.sh"
place=$(mktemp -d)
trap 'rm -rf "$place"; remove_hosts' EXIT
unset HMC_SECRET HMC_RANK HMC_SIZE
export HMC_TIMEOUT_S=60 HMC_NET=net0 UCX_NET_DEVICES=net0

make_launch_agent "$place/agent"
agent=$place/agent
failed() {
  echo "FAILED: $1" >&2
  cat "$place/out" "$place/err" >&2
  exit 1
}
# job STATUS ARGUMENTS...: runs hmcrun on the first host; output in $place/out and $place/err.
job() {
  local expected=$1 status=0
  shift
  echo "== hmcrun $*"
  on a "$hmcrun" --launch-agent "$agent" --timeout 60 "$@" >"$place/out" 2>"$place/err" || status=$?
  [[ $status == "$expected" ]] || failed "status $status and not $expected"
}
says() { grep -q "$1" "$place/out" "$place/err" || failed "'$1' is missing"; }

for np in 1 2 5 8; do job 0 -np "$np" -H h1:4,h2:4 "$regroup" use; done
job 0 -H h1:2,h2:2 --map-by node "$regroup" use
job 0 -H h1:2,h2:2 -x HMC_TRANSPORT=tcp "$regroup" use
job 0 -H h1:2,h2:2 -x HMC_TLS=1 "$regroup" use
printf '# two hosts\nh1 slots=2\nh2:1\n' >"$place/hosts"
job 0 --hostfile "$place/hosts" "$regroup" use
job 0 -N 2 -H h1,h2 "$regroup" use
# shellcheck disable=SC2016 # the ranks expand it
job 0 -H h1:2,h2:2 -x GIVEN=word --tag-output sh -c 'echo $HMC_RANK of $HMC_SIZE on $HMC_NODE, $GIVEN'
for line in '[0,stdout] 0 of 4 on h1, word' '[1,stdout] 1 of 4 on h1, word' '[2,stdout] 2 of 4 on h2, word' \
  '[3,stdout] 3 of 4 on h2, word'; do grep -qxF "$line" "$place/out" || failed "$line"; done

echo "== rank 0's input"
[[ $(printf 'one\ntwo\n' | on a "$hmcrun" --launch-agent "$place/agent" -H h1:1,h2:1 cat) == $'one\ntwo' ]]

echo "== the secret is in no command line"
on a "$hmcrun" --launch-agent "$place/agent" --timeout 5 -H h1:1,h2:1 sh -c 'echo ready; exec sleep 30' \
  >"$place/out" 2>"$place/err" &
await 2 ready "$place/out" "$!" || failed "the job ended early"
if grep -laE 'HMC_SECRET|[0-9a-f]{64}' /proc/[0-9]*/cmdline; then failed "a command line has the secret"; fi
wait "$!" && status=0 || status=$?
[[ $status == 124 ]] || failed "status $status of --timeout"
says 'rank 1 (pid .*, host h2): running'

echo "== a job on one host whose loopback interface is down, without another interface and with one"
c=hmc-c-$$
ip netns add "$c"
trap 'rm -rf "$place"; remove_hosts; ip netns del "$c"' EXIT
ip netns exec "$c" env -u HMC_NET "$hmcrun" --timeout 60 -np 2 "$regroup" use
ip -n "$c" link add net0 type veth peer name net1
ip -n "$c" address add 10.78.1.1/24 dev net0
for device in net0 net1; do ip -n "$c" link set "$device" up; done
for np in 1 4; do ip netns exec "$c" env -u HMC_NET "$hmcrun" --timeout 60 -np "$np" "$regroup" use; done

# Statuses: the rank that failed first, on either host.
# shellcheck disable=SC2016
job 3 -H h1:2,h2:2 sh -c '[ $HMC_RANK = 3 ] && exit 3; sleep 30'
says 'rank 3 (pid .*, host h2) exited with status 3'
# shellcheck disable=SC2016
job 137 -H h1:2,h2:2 sh -c '[ $HMC_RANK = 0 ] && kill -9 $$; sleep 30'
job 127 -H h1:2,h2:2 no-such-program
job 2 -np 5 -H h1:2,h2:2 true
says 'the hosts have 4 slots'
agent=false
job 125 -H h1:1,h2:1 true
agent=$place/agent
says 'host h1: the launch agent (false) exited with status 1'

# Ranks that die at random times, and are left out or replaced.
truncate -s 4096 "$place/moments"
for seed in 1 2 3 4; do
  truncate -s 0 "$place/moments"
  truncate -s 4096 "$place/moments"
  job 137 -H h1:2,h2:2 "$kills" calls "$seed" "$place/moments"
  [[ $(grep -c 'code peer_failed' "$place/out") == 3 ]] || failed "a survivor has no error"
  if grep -q 'connection to the node' "$place/err"; then failed "a host counts as lost"; fi
done
job 0 -H h1:2,h2:2 --keep-going "$regroup" shrink
job 0 -H h1:2,h2:2 --respawn 4 "$regroup" grow
job 7 -H h1:2,h2:2 --keep-going "$regroup" errors

echo "== a lost host"
export HMC_LOST_HOST_S=2
on a "$hmcrun" --launch-agent "$place/agent" --timeout 60 -H h1:2,h2:2 "$kills" forever 1 "$place/moments" >"$place/out" 2>"$place/err" &
await 4 ready "$place/out" "$!" || failed "the job ended early"
start=$(date +%s%N)
lose "$b" "$place/out" "$!"
wait "$!" && status=0 || status=$?
took=$((($(date +%s%N) - start) / 1000000))
[[ $status == 125 ]] || failed "status $status after the loss of a host"
says 'the connection to the node of ranks 2, 3 ended'
[[ $(grep -c 'code peer_failed peer [23]' "$place/out") -ge 2 ]] || failed "the ranks of h1 have no error"
# At 3 s on an idle machine: HMC_LOST_HOST_S and a second.
[[ $noticed -lt 10000 && $took -lt 20000 ]] || failed "the ranks of h1 noticed it after $noticed ms, the job ended after $took ms"
echo "the ranks of h1 noticed it after $noticed ms, and the job ended after $took ms"
