#!/usr/bin/env bash
# hosts.sh APP: jobs over two hosts: two network namespaces with addresses of their own. Ranks started with torchrun's
# and Slurm's variables, and by mpiexec.hydra with `ip netns exec` in place of ssh. Exits with 77 if this machine
# can't make namespaces.
set -euo pipefail
app=$1
# shellcheck source=tests/support/two_hosts.sh
source "$(dirname "$0")/../support/two_hosts.sh"
place=$(mktemp -d)
trap 'rm -rf "$place"; remove_hosts' EXIT
unset HMC_SECRET HMC_RANK HMC_SIZE
export HMC_TIMEOUT_S=60

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

torch=(env WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.77.5.1 MASTER_PORT=29500)
step=(env SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=2 "SLURM_STEP_NODELIST=10.77.5.1,10.77.5.2" SLURM_JOB_ID=7 SLURM_STEP_ID=1)

echo "== several hosts need HMC_SECRET"
if ranks RANK a a b b -- "${torch[@]}" HMC_TIMEOUT_S=5 "$app" 4 2>"$place/refused"; then
  echo "a job over two hosts started without HMC_SECRET" >&2
  exit 1
fi
grep -q 'HMC_SECRET is not set' "$place/refused"

HMC_SECRET=$(random_secret)
export HMC_SECRET
echo "== torchrun's variables"
ranks RANK a a b b -- "${torch[@]}" "$app" 4 | grep -x 'rank 0 of 4 by torchrun'
echo "== Slurm's variables"
ranks SLURM_PROCID a b b -- "${step[@]}" "$app" 3 | grep -x 'rank 0 of 3 by Slurm'
echo "== encrypted"
ranks RANK a a b b -- "${torch[@]}" HMC_TLS=1 "$app" 4 | grep -x 'rank 0 of 4 by torchrun'
unset HMC_SECRET

command -v mpiexec.hydra >/dev/null || missing "no mpiexec.hydra (the rest has passed)"
# hydra calls its remote shell as: agent [-x] HOST COMMAND...
cat >"$place/agent" <<EOF
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in 10.77.5.1) host=$a ;; *) host=$b ;; esac
shift
exec ip netns exec "\$host" sh -c "\$*"
EOF
chmod +x "$place/agent"
hydra=(mpiexec.hydra -launcher ssh -launcher-exec "$place/agent" -hosts "10.77.5.1,10.77.5.2" -iface net0 -ppn 2 -n 4)
joined='rank 0 of 4 by PMI-1'
echo "== the first address, which the other host can't reach, is passed over"
on a "${hydra[@]}" "$app" 4 | grep -x "$joined"
echo "== HMC_NET selects the network"
on a "${hydra[@]}" -genv HMC_NET net0 "$app" 4 | grep -x "$joined"
on a "${hydra[@]}" -genv HMC_NET ^net1 "$app" 4 | grep -x "$joined"
# mpiexec ends a job when a rank exits. The ranks on the first host wait for the error of the others.
cat >"$place/rank" <<EOF
#!/usr/bin/env bash
"$app" 4
status=\$?
for ((i = 0; i < 600 && PMI_RANK < 2; ++i)); do
  ! grep -qf "$place/expected" "$place/refused" || break
  sleep 0.1
done
exit \$status
EOF
chmod +x "$place/rank"
# refused HMC_NET TEXT: the job doesn't start, and an error has the text.
refused() {
  echo "$2" >"$place/expected"
  if on a "${hydra[@]}" -genv HMC_NET "$1" -genv HMC_TIMEOUT_S 2 "$place/rank" >"$place/refused" 2>&1; then
    echo "a job with HMC_NET=$1 started" >&2
    exit 1
  fi
  grep -qf "$place/expected" "$place/refused" || { cat "$place/refused" && exit 1; }
}
refused net1 'no store at 10.99.1.1:'
refused ^net0 'no store at 10.99.1.1:'
refused net7 "no network interface 'net7'"
