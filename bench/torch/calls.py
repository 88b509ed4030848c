"""The backend hmc, gloo, mpi (where torch has it) and a backend that does nothing (torch's "fake"), in interleaved rounds.

calls.py [--rounds N] [--bytes N...] [NAME...], run by hmcrun. NAME: part of a row's name. Rank 0 prints a table: medians of
the rounds, in microseconds per call, of the slowest rank. The ratio is gloo to hmc.
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist

import hmc.torch

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--bytes", type=int, nargs="+", default=[8, 1 << 10, 64 << 10, 1 << 20, 16 << 20])
parser.add_argument("names", nargs="*", default=[""])
arguments = parser.parse_intermixed_args()
seconds_per_round = 0.02

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
all_gather_into = getattr(dist, "all_gather_into_tensor", dist._all_gather_base)
reduce_scatter_tensor = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)


def backends():
    """Groups by the backend's name."""
    groups = {"hmc": dist.new_group(backend="hmc"), "gloo": dist.group.WORLD}
    if dist.is_mpi_available():
        groups["mpi"] = dist.new_group(backend="mpi")
    try:
        from torch.testing._internal.distributed import fake_pg  # noqa: F401

        groups["nothing"] = dist.new_group(backend="fake")
    except ImportError:
        pass  # torch 1.13
    return groups


def calls(size, group):
    """The rows. `size`: bytes per rank, of a message, or of the whole tensor of an all_reduce or a broadcast."""
    tensor, other = torch.zeros(max(size // 4, 1)), torch.zeros(max(size // 4, 1))
    whole = torch.zeros(max(size // 4, 1) * ranks)
    parts = list(whole.view(ranks, -1).unbind())
    into = torch.zeros_like(whole)
    moved = []
    share = torch.zeros(-(-size // 4 // ranks) * ranks)  # all_to_all of `size` bytes on each rank
    exchanged = torch.zeros_like(share)

    def all_reduce_in_window():
        if dist.get_backend(group) == "hmc" and not moved:
            hmc.torch.move(tensor, group)
            moved.append(True)
        dist.all_reduce(tensor, group=group)

    def messages():
        """There and back; the time is of both."""
        if rank == 0:
            dist.send(tensor, 1, group=group)
            dist.recv(tensor, 1, group=group)
        elif rank == 1:
            dist.recv(tensor, 0, group=group)
            dist.send(tensor, 0, group=group)

    def both_ways():
        if rank < 2:
            works = [dist.isend(tensor, 1 - rank, group=group), dist.irecv(other, 1 - rank, group=group)]
            for each in works:
                each.wait()

    rows = {"all_reduce": lambda: dist.all_reduce(tensor, group=group),
            "all_reduce in a window": all_reduce_in_window,
            "all_reduce async": lambda: dist.all_reduce(tensor, group=group, async_op=True).wait(),
            "all_reduce future": lambda: dist.all_reduce(tensor, group=group, async_op=True).get_future().wait(),
            "broadcast": lambda: dist.broadcast(tensor, 0, group=group),
            "reduce": lambda: dist.reduce(tensor, 0, group=group),
            "all_gather": lambda: dist.all_gather(parts, tensor, group=group),
            "all_gather_into_tensor": lambda: all_gather_into(whole, tensor, group=group),
            "reduce_scatter_tensor": lambda: reduce_scatter_tensor(tensor, into, group=group),
            "all_to_all_single": lambda: dist.all_to_all_single(exchanged, share, group=group)}
    if size == arguments.bytes[0]:
        rows["barrier"] = lambda: dist.barrier(group=group)
    if ranks > 1:
        rows.update({"send and recv": messages, "isend with irecv": both_ways})
    return rows


def measure(call):
    """Microseconds per call of the slowest rank; None if the backend doesn't have the call."""
    try:
        call()
    except RuntimeError as error:
        if "support" not in str(error):
            raise
        return None
    count = 2
    while True:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            call()
        spent = torch.tensor([time.perf_counter() - start])
        dist.all_reduce(spent, dist.ReduceOp.MAX)
        if spent.item() >= seconds_per_round or count >= 2000:
            return 1e6 * spent.item() / count
        count = min(2000, max(count + 1, int(count * 1.2 * seconds_per_round / max(spent.item(), 1e-6))))


def main():
    groups = backends()
    if rank == 0:
        print(f"torch {torch.__version__}, {ranks} ranks, {os.environ.get('HMC_NODES', 1)} node(s), {os.cpu_count()} cores; "
              f"us per call\n{'call':24} {'bytes':>9}" + "".join(f" {name:>10}" for name in groups) + f" {'ratio':>7}", flush=True)
    wanted = [name for name in calls(arguments.bytes[0], None) if any(each in name for each in arguments.names)]
    for name in wanted:
        for size in arguments.bytes:
            rows = {backend: calls(size, group).get(name) for backend, group in groups.items()}
            if rows["hmc"] is None:
                continue
            times = {backend: [] for backend in groups}
            for _ in range(arguments.rounds):
                for backend, call in rows.items():
                    times[backend].append(measure(call))
            medians = {backend: statistics.median(each) if None not in each else None for backend, each in times.items()}
            if rank == 0:
                ratio = medians["gloo"] / medians["hmc"] if medians["gloo"] else None
                print(f"{name:24} {size:9}" + "".join(f" {'-' if each is None else f'{each:.1f}':>10}" for each in medians.values()) +
                      f" {'-' if ratio is None else f'{ratio:.1f}':>7}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
