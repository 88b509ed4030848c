"""The cost of c10d itself: an all_reduce of 8 bytes on the backend "fake", which does nothing, and on hmc with one rank."""
import os
import statistics
import time

import torch
import torch.distributed as dist


def measure(group):
    tensor = torch.zeros(2)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(2000):
            dist.all_reduce(tensor, group=group)
        times.append((time.perf_counter() - start) / 2000 * 1e6)
    return statistics.median(times)


torch.set_num_threads(1)
try:
    from torch.testing._internal.distributed.fake_pg import FakeStore
except ImportError:
    print(f"torch {torch.__version__} has no backend fake: its cost isn't measured", flush=True)
    raise SystemExit(0) from None
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
fake = measure(None)
dist.destroy_process_group()
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29877")
dist.init_process_group("hmc")
print(f"all_reduce, 8 bytes: fake {fake:.1f} us, hmc with one rank {measure(None):.1f} us", flush=True)
dist.destroy_process_group()
