#!/usr/bin/env bash
# hosts.sh APP: jobs over two hosts: two network namespaces with addresses of their own. Ranks started with torchrun's
# and Slurm's variables, and by mpiexec.hydra with `ip netns exec` in place of ssh. Exits with 77 if this machine can't
# make namespaces.
set -euo pipefail
app=$1
a=hmc-hosts-a-$$ b=hmc-hosts-b-$$
place=$(mktemp -d)
skip() {
  echo "missing: $*"
  exit 77
}
command -v ip >/dev/null || skip "no iproute2"
ip netns add "$a" 2>/dev/null || skip "this user can't make network namespaces"
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$place"
}
trap cleanup EXIT
ip netns add "$b"
# Two networks: net0 connects the hosts; on net1 each host has an address that the other host can't reach.
ip link add net0 netns "$a" type veth peer name net0 netns "$b" || skip "no veth devices"
for host in a b; do
  name=$a last=1
  [[ $host == a ]] || name=$b last=2
  ip -n "$name" link add net1 type dummy 2>/dev/null || true
  ip -n "$name" address add "10.99.$last.1/24" dev net1 2>/dev/null || true
  ip -n "$name" link set net1 up 2>/dev/null || true
  ip -n "$name" address add "10.78.5.$last/24" dev net0
  ip -n "$name" link set net0 up
  ip -n "$name" link set lo up
done
for name in "$a" "$b"; do
  until ip -n "$name" link show net0 | grep -q 'state UP'; do sleep 0.05; done
done
unset HMC_SECRET HMC_RANK HMC_SIZE
export HMC_TIMEOUT_S=60
on() {
  local host=$a
  [[ $1 == a ]] || host=$b
  shift
  ip netns exec "$host" timeout 120 "$@"
}

# ranks VARIABLE HOST... -- COMMAND...: rank i on the i-th host; rank 0 starts last. Prints all output.
ranks() {
  local variable=$1 hosts=() pids=() status=0 i
  shift
  while [[ $1 != -- ]]; do
    hosts+=("$1")
    shift
  done
  shift
  for ((i = ${#hosts[@]} - 1; i >= 0; --i)); do
    on "${hosts[i]}" env "$variable=$i" "$@" &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=$?; done
  return "$status"
}

torch=(env WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.78.5.1 MASTER_PORT=29500)
step=(env SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=2 "SLURM_STEP_NODELIST=10.78.5.1,10.78.5.2" SLURM_JOB_ID=7 SLURM_STEP_ID=1)

echo "== several hosts need HMC_SECRET"
if ranks RANK a a b b -- "${torch[@]}" HMC_TIMEOUT_S=5 "$app" 4 2>"$place/refused"; then
  echo "a job over two hosts started without HMC_SECRET" >&2
  exit 1
fi
grep -q 'HMC_SECRET is not set' "$place/refused"

HMC_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export HMC_SECRET
echo "== torchrun's variables"
ranks RANK a a b b -- "${torch[@]}" "$app" 4 | grep -x 'rank 0 of 4 by torchrun'
echo "== Slurm's variables"
ranks SLURM_PROCID a b b -- "${step[@]}" "$app" 3 | grep -x 'rank 0 of 3 by Slurm'
echo "== encrypted"
ranks RANK a a b b -- "${torch[@]}" HMC_TLS=1 "$app" 4 | grep -x 'rank 0 of 4 by torchrun'
unset HMC_SECRET

if command -v mpiexec.hydra >/dev/null; then
  # hydra calls its remote shell as: agent [-x] HOST COMMAND...
  cat >"$place/agent" <<EOF
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in 10.78.5.1) host=$a ;; *) host=$b ;; esac
shift
exec ip netns exec "\$host" sh -c "\$*"
EOF
  chmod +x "$place/agent"
  hydra=(mpiexec.hydra -launcher ssh -launcher-exec "$place/agent" -hosts "10.78.5.1,10.78.5.2" -iface net0 -ppn 2 -n 4)
  echo "== hydra on two hosts: the first address that connects is used"
  on a "${hydra[@]}" "$app" 4 | grep -x 'rank 0 of 4 by PMI-1'
  echo "== HMC_NET selects the network"
  on a "${hydra[@]}" -genv HMC_NET net0 "$app" 4 | grep -x 'rank 0 of 4 by PMI-1'
  if on a "${hydra[@]}" -genv HMC_NET net7 "$app" 4 >"$place/refused" 2>&1; then
    echo "an unknown interface in HMC_NET was accepted" >&2
    exit 1
  fi
  grep -q "no network interface 'net7'" "$place/refused"
fi
