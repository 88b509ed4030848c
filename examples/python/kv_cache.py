"""TransferEngine: a prefill process writes its float16 cache into the memory of a decode process, which it knows by name.

  hmcrun -np 2 python kv_cache.py                            rank 0: prefill, rank 1: decode
  python kv_cache.py tcp://127.0.0.1:8575 prefill            and in another terminal:
  python kv_cache.py tcp://127.0.0.1:8575 decode
"""

import os
import struct
import sys

import numpy as np
from memfabric_hybrid import TransferEngine, get_last_err_msg, shm, uninitialize

NAMES = ("127.0.0.1:7001", "127.0.0.1:7002")
LAYERS, TOKENS, WIDTH = 8, 64, 1024


def main(url="hmc://", role=None):
    rank = int(os.environ["HMC_RANK"]) if role is None else ("prefill", "decode").index(role)
    # SHM's control operations exchange the addresses, as a serving system's own messages do.
    assert shm.initialize(url, 2, rank, 0, shm.ShmConfig()) == 0, get_last_err_msg()
    control = shm.create(0, 2, rank, 2 << 20)
    engine = TransferEngine()
    assert engine.initialize(url, NAMES[rank], ("Prefill", "Decode")[rank], 0) == 0, get_last_err_msg()

    values = np.random.default_rng(7).standard_normal((LAYERS, TOKENS, WIDTH)).astype(np.float16)
    cache = values.copy() if rank == 0 else np.zeros_like(values)
    assert engine.register_memory(cache.ctypes.data, cache.nbytes) == 0
    addresses = struct.unpack("2Q", control.all_gather(struct.pack("Q", cache.ctypes.data)))
    layer = cache[0].nbytes
    if rank == 0:
        offsets = [i * layer for i in range(LAYERS)]
        done = engine.batch_transfer_sync_write(NAMES[1], [addresses[0] + i for i in offsets],
                                                [addresses[1] + i for i in offsets], [layer] * LAYERS)
        assert done == 0, get_last_err_msg()
    control.barrier()
    if rank == 1:
        assert np.array_equal(cache, values), "the cache"
        assert engine.transfer_sync_read(NAMES[0], cache.ctypes.data, addresses[0] + 3 * layer, layer) == 0
        assert np.array_equal(cache[0], values[3]), "the layer that was read"
    print(f"{('prefill', 'decode')[rank]}: {LAYERS} layers of {TOKENS} x {WIDTH} float16 values", flush=True)
    control.barrier()
    engine.destroy()
    uninitialize()


if __name__ == "__main__":
    main(*sys.argv[1:])
