"""all_reduce of CUDA tensors by the backends hmc and gloo of torch.distributed; the result is checked in each call. Run by hmcrun.
Rank 0 prints medians of nine interleaved rounds, in microseconds."""
import os
import statistics
import time

import torch
import torch.distributed as dist

import hmc.torch  # noqa: F401

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("gloo")
groups = {"hmc": dist.new_group(backend="hmc"), "gloo": dist.group.WORLD}
me, ranks = dist.get_rank(), dist.get_world_size()
for size in (8, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20):
    values = torch.arange(size // 4, device="cuda") % 1021
    expected = values * ranks + ranks * (ranks - 1) // 2
    times = {name: [] for name in groups}
    for call in range(11):
        for name, group in groups.items():
            tensor = (values + me).float()
            torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(tensor, group=group)
            torch.cuda.synchronize()
            times[name].append(1e6 * (time.perf_counter() - start))
            assert torch.equal(tensor, expected.float()), (name, size, call)
    medians = {name: statistics.median(each[2:]) for name, each in times.items()}
    if me == 0:
        print(f"all_reduce {size:10} bytes, {ranks} ranks: hmc {medians['hmc']:9.1f} us, gloo {medians['gloo']:9.1f} us, "
              f"{medians['gloo'] / medians['hmc']:.1f} times", flush=True)
dist.destroy_process_group()
