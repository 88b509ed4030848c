# shellcheck shell=bash
# Sourced: two hosts, $a and $b, as network namespaces. net0 connects them: 10.77.5.1 and 10.77.5.2. On net1 each has an
# address that the other can't reach: 10.99.1.1 and 10.99.2.1. Exits with 77 if this machine can't make namespaces.
a=hmc-a-$$ b=hmc-b-$$
missing() {
  echo "missing: $*"
  exit 77
}
remove_hosts() {
  for name in "$a" "$b"; do
    if ip netns pids "$name" >/dev/null 2>&1; then ip netns del "$name"; fi
  done
}
command -v ip >/dev/null || missing "no iproute2"
ip netns add "$a" 2>/dev/null || missing "this user can't make network namespaces"
trap remove_hosts EXIT
ip netns add "$b"
for name in "$a" "$b"; do # net1 first: its address comes first in the lists of addresses
  ip -n "$name" link add net1 type veth peer name unused || missing "no veth devices"
done
ip link add net0 netns "$a" type veth peer name net0 netns "$b"
last=1
for name in "$a" "$b"; do
  ip -n "$name" address add "10.99.$last.1/24" dev net1
  ip -n "$name" address add "10.77.5.$last/24" dev net0
  for device in unused net1 net0 lo; do ip -n "$name" link set "$device" up; done
  last=2
done
for name in "$a" "$b"; do # UCX ignores a device that isn't running yet
  until ip -n "$name" link show net0 | grep -q 'state UP'; do sleep 0.05; done
done

# on a|b COMMAND...: runs it on that host, for at most two minutes.
on() {
  local host=$a
  [[ $1 == a ]] || host=$b
  shift
  ip netns exec "$host" timeout 120 "$@"
}
# make_launch_agent FILE: a program for hmcrun's --launch-agent, in place of ssh; the hosts are h1 and h2.
make_launch_agent() {
  cat >"$1" <<EOF
#!/usr/bin/env bash
host=$a
[[ \$1 == h1 ]] || host=$b
shift
exec ip netns exec "\$host" "\$@"
EOF
  chmod +x "$1"
}
# await COUNT TEXT FILE JOB: until COUNT lines of FILE have TEXT. Status 1 if the process JOB ends before.
await() {
  until [[ $(grep -c "$2" "$3" 2>/dev/null) -ge $1 ]]; do
    kill -0 "$4" 2>/dev/null || return 1
    sleep 0.02
  done
}
# lose HOST FILE JOB: takes HOST's network away, and sets $noticed to the milliseconds until rank 0 or 1 has written
# "noticed by" to FILE or the process JOB has ended.
lose() {
  local start
  start=$(date +%s%N)
  ip -n "$1" link set net0 down
  await 1 'noticed by [01]' "$2" "$3" || true
  # shellcheck disable=SC2034  # the caller reads it
  noticed=$((($(date +%s%N) - start) / 1000000))
}
random_secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
