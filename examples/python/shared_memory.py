"""memfabric_hybrid.shm: memory of the same size on each rank. Each rank tells by its extra context how far it shifts its
array; it puts the array that far to the right, and gets it back.

  hmcrun -np 4 python shared_memory.py
  python shared_memory.py tcp://127.0.0.1:8574 4 0  in 4 terminals, the last number is the rank; rank 0 serves the store
"""

import os
import struct
import sys

import numpy as np
from memfabric_hybrid import shm, uninitialize

PART = 2 << 20
COUNT = 1000


def main(url="hmc://", size=os.environ.get("HMC_SIZE"), rank=os.environ.get("HMC_RANK")):
    size, rank = int(size), int(rank)
    assert shm.initialize(url, size, rank, 0, shm.ShmConfig()) == 0
    memory = shm.create(0, size, rank, PART)
    shift = 1 + rank % 2
    memory.set_context(struct.pack("II", rank, shift))
    mine, back = np.arange(COUNT, dtype=np.int32) + 10_007 * rank, np.empty(COUNT, np.int32)

    def place(owner, source):
        return memory.gva + owner * PART + source * mine.nbytes

    target = place((rank + shift) % size, rank)
    memory.copy(mine.ctypes.data, target, mine.nbytes)
    memory.barrier()
    received = 0
    for source in range(size):
        name, by = struct.unpack("II", memory.context(source))
        assert name == source
        if (source + by) % size == rank:
            memory.copy(place(rank, source), back.ctypes.data, back.nbytes)
            assert np.array_equal(back, np.arange(COUNT) + 10_007 * source), "the array of another rank"
            received += 1
    memory.copy(target, back.ctypes.data, back.nbytes)
    assert np.array_equal(back, mine), "the array that came back"
    print(f"rank {rank} of {size}: arrays of {received} ranks, and its own came back", flush=True)
    memory.barrier()
    memory.destroy()
    uninitialize()


if __name__ == "__main__":
    main(*sys.argv[1:])
