"""memfabric_hybrid.bm: a pool of host and device memory. Each process copies an array into both parts of the next member,
and reads them back; the owner verifies its parts.

  hmcrun -np 4 python memory_pool.py
  python memory_pool.py tcp://127.0.0.1:8573 4      in 4 terminals: one of the processes serves the store
"""

import ctypes
import os
import sys

import numpy as np
from memfabric_hybrid import bm, uninitialize

PART = 4 << 20
COUNT = 500_000


def main(url="hmc://", size=os.environ.get("HMC_SIZE")):
    size = int(size)
    assert bm.initialize(url, size, 0, bm.BmConfig()) == 0
    rank = bm.bm_rank_id()
    after, before = (rank + 1) % size, (rank - 1) % size
    pool = bm.create(0, local_dram_size=PART, local_hbm_size=PART, data_op_type=bm.BmDataOpType.SDMA)
    assert pool.join() == 0
    pool.barrier(size)  # all are members

    def numbers(of):
        return np.arange(COUNT, dtype=np.int32) * 7 + 1_000_003 * of

    mine, back = numbers(rank), np.empty(COUNT, np.int32)
    for part in (bm.BmMemType.HOST, bm.BmMemType.DEVICE):
        remote = pool.peer_rank_ptr(after, part)
        assert pool.copy_data(mine.ctypes.data, remote, mine.nbytes, bm.BmCopyType.AUTO) == 0
        assert pool.copy_data(remote, back.ctypes.data, back.nbytes, bm.BmCopyType.AUTO) == 0
        assert np.array_equal(back, mine), "the numbers that came back"
    pool.barrier(size)

    # The owner: its host part by loads, its device part by a copy.
    host = pool.peer_rank_ptr(rank, bm.BmMemType.HOST)
    own = np.frombuffer((ctypes.c_char * mine.nbytes).from_address(host), np.int32)
    assert np.array_equal(own, numbers(before)), "the host part"
    device = pool.peer_rank_ptr(rank, bm.BmMemType.DEVICE)
    assert pool.copy_data(device, back.ctypes.data, back.nbytes, bm.BmCopyType.G2H) == 0
    assert np.array_equal(back, numbers(before)), "the device part"
    print(f"rank {rank} of {size}: both parts have the numbers of rank {before}", flush=True)

    pool.barrier(size)
    pool.destroy()
    uninitialize()


if __name__ == "__main__":
    main(*sys.argv[1:])
