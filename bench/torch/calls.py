"""The backend hmc and gloo of the same torch, in interleaved rounds: calls.py [ROUNDS]. Run by hmcrun. Rank 0 prints a
table: medians of the rounds, in microseconds per call, of the slowest rank."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

import hmc.torch  # noqa: F401: torch 1.13 doesn't find backends

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
torch.set_num_threads(1)
dist.init_process_group("gloo")
groups = {"hmc": dist.new_group(backend="hmc"), "gloo": dist.group.WORLD}
rank, ranks = dist.get_rank(), dist.get_world_size()
all_gather = getattr(dist, "all_gather_into_tensor", dist._all_gather_base)
reduce_scatter = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)


def calls(bytes_each, group):
    tensor, whole = torch.zeros(bytes_each // 4), torch.zeros(bytes_each // 4 * ranks)
    parts = list(torch.zeros(ranks, bytes_each // 4).unbind())

    def ping():
        if rank == 0:
            dist.send(tensor, 1, group=group)
            dist.recv(tensor, 1, group=group)
        elif rank == 1:
            dist.recv(tensor, 0, group=group)
            dist.send(tensor, 0, group=group)

    return {"all_reduce": lambda: dist.all_reduce(tensor, group=group),
            "all_reduce (async)": lambda: dist.all_reduce(tensor, group=group, async_op=True).wait(),
            "broadcast": lambda: dist.broadcast(tensor, 0, group=group),
            "all_gather": lambda: dist.all_gather(parts, tensor, group=group),
            "all_gather_into_tensor": lambda: all_gather(whole, tensor, group=group),
            "reduce_scatter_tensor": lambda: reduce_scatter(tensor, whole, group=group),
            "send, recv": ping}


def measure(call, seconds):
    """Microseconds per call of the slowest rank; about `seconds` long."""
    call()
    count = 2
    while True:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            call()
        spent = torch.tensor([time.perf_counter() - start])
        dist.all_reduce(spent, dist.ReduceOp.MAX)
        if spent.item() >= seconds or count >= 2000:
            return 1e6 * spent.item() / count
        count = min(2000, max(count + 1, int(count * 1.2 * seconds / max(spent.item(), 1e-6))))


def main():
    if rank == 0:
        print(f"torch {torch.__version__}, {ranks} ranks, {os.environ.get('HMC_NODES', 1)} node(s), {os.cpu_count()} cores\n"
              f"{'call':24} {'bytes':>10} {'hmc us':>10} {'gloo us':>10} {'ratio':>7}", flush=True)
    sizes = (8, 1 << 10, 64 << 10, 1 << 20, 16 << 20)
    for name in calls(8, groups["hmc"]):
        for size in sizes:
            times = {"hmc": [], "gloo": []}
            for _ in range(rounds):
                for backend, group in groups.items():
                    try:
                        times[backend].append(measure(calls(size, group)[name], 0.02))
                    except RuntimeError as error:
                        if "support" not in str(error):
                            raise
            medians = {backend: statistics.median(all_times) if all_times else None for backend, all_times in times.items()}
            if rank == 0:
                gloo = medians["gloo"]
                print(f"{name:24} {size:10} {medians['hmc']:10.1f} " +
                      (f"{gloo:10.1f} {gloo / medians['hmc']:7.1f}" if gloo else f"{'-':>10} {'-':>7}"), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
