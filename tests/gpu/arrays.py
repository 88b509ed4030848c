"""Arrays of torch and cupy on a GPU, through the package hmc. Every result is compared on its owner.

hmcrun -np N python arrays.py [LARGEST]: LARGEST is the size of the largest allreduce of the table in bytes (64 MiB).
Ranks use the devices in turn; several ranks may share one.
"""
import importlib
import os
import statistics
import sys
import time

import numpy as np

import hmc

runtime = hmc.init()
team = runtime.world
me, n = team.rank, team.size


class Torch:
    def __init__(self):
        self.torch = importlib.import_module("torch")
        self.torch.cuda.set_device(me % self.torch.cuda.device_count())

    def make(self, values):
        return self.torch.from_numpy(values).cuda()

    def read(self, array):
        return array.cpu().numpy()

    def synchronize(self):
        self.torch.cuda.synchronize()


class Cupy:
    def __init__(self):
        self.cupy = importlib.import_module("cupy")
        self.cupy.cuda.Device(me % self.cupy.cuda.runtime.getDeviceCount()).use()

    def make(self, values):
        return self.cupy.asarray(values)

    def read(self, array):
        return self.cupy.asnumpy(array)

    def synchronize(self):
        self.cupy.cuda.Device().synchronize()


def data(rank, count, call=0, dtype=np.float32):
    return ((np.arange(count) * 3 + rank * 5 + call * 7) % 11).astype(dtype)


def equal(got, expected, what):
    assert got.dtype == expected.dtype and np.array_equal(got.reshape(-1), expected.reshape(-1)), (what, me, got, expected)


def check_collectives(kind):
    for count in (1, 1031, 1 << 20):
        array = kind.make(data(me, count))
        team.allreduce(array)
        equal(kind.read(array), sum(data(r, count) for r in range(n)), "allreduce")
        out = kind.make(np.zeros(count, np.float32))
        team.allreduce(kind.make(data(me, count, 1)), out, op="max")
        equal(kind.read(out), np.maximum.reduce([data(r, count, 1) for r in range(n)]), "allreduce max")
        array = kind.make(data(me, count, 2))
        team.broadcast(array, n - 1)
        equal(kind.read(array), data(n - 1, count, 2), "broadcast")
        out = kind.make(np.zeros(count * n, np.float32))
        team.allgather(kind.make(data(me, count, 3)), out)
        equal(kind.read(out), np.concatenate([data(r, count, 3) for r in range(n)]), "allgather")
        out = kind.make(np.zeros(count, np.float32))
        team.reduce_scatter(kind.make(np.concatenate([data(me, count, i) for i in range(n)])), out)
        equal(kind.read(out), sum(data(r, count, me) for r in range(n)), "reduce_scatter")
        out = kind.make(np.zeros(count * n, np.float32))
        team.alltoall(kind.make(np.concatenate([data(me, count, i) for i in range(n)])), out)
        equal(kind.read(out), np.concatenate([data(r, count, me) for r in range(n)]), "alltoall")


def check_messages(kind):
    for count in (5, 3 << 20):
        request = team.isend(kind.make(data(me, count, 4)), (me + 1) % n, 3)
        into = kind.make(np.zeros(count, np.float32))
        team.recv(into, (me - 1) % n, 3)
        request.wait()
        equal(kind.read(into), data((me - 1) % n, count, 4), "message")


def check_windows(kind):
    """Puts into and gets from the memory of an array, while the owner doesn't call HMC."""
    count = 1 << 20
    array = kind.make(np.zeros(count, np.float32))
    kind.synchronize()
    with hmc.Window(team, array) as window:
        right, left = (me + 1) % n, (me - 1) % n
        window.put(right, 400, kind.make(data(me, 1000)))
        window.put(right, 8000, data(me, 1000, 1))
        window.flush()
        team.barrier()
        expected = np.zeros(count, np.float32)
        expected[100:1100], expected[2000:3000] = data(left, 1000), data(left, 1000, 1)
        equal(kind.read(array), expected, "put")
        out = kind.make(np.zeros(1000, np.float32))
        window.get(right, 400, out)
        equal(kind.read(out), data(me, 1000), "get")
        path = window.path(right)
        team.barrier()
    return path


def check_buffers(kind):
    values = data(me, 1000, 5)
    buffer = hmc.Buffer.from_array(kind.make(values))
    equal(np.asarray(buffer.host()), values, "Buffer from an array")


def table(kind, largest):
    count = 1 << 10
    while 4 * count <= largest:
        array, times = kind.make(np.zeros(count, np.float32)), []
        kind.synchronize()
        for _ in range(12):
            team.barrier()
            start = time.perf_counter()
            team.allreduce(array)
            times.append(time.perf_counter() - start)
        if me == 0:
            us = 1e6 * statistics.median(times)
            print(f"{type(kind).__name__:6} allreduce {4 * count:10} bytes {us:10.1f} us {4e-3 * count / us:8.2f} GB/s", flush=True)
        count *= 8


def main():
    passed = 0
    for make in (Torch, Cupy):
        try:
            kind = make()
        except ImportError as missing:
            if me == 0:
                print(f"skipped {make.__name__}: {missing}")
            continue
        for check in (check_collectives, check_messages, check_windows, check_buffers):
            start = time.perf_counter()
            result = check(kind)
            passed += 1
            if me == 0:
                print(f"ok {make.__name__} {check.__name__} {time.perf_counter() - start:.2f} s {result or ''}", flush=True)
        table(kind, int(sys.argv[1]) if len(sys.argv) > 1 else 64 << 20)
    assert passed, "neither torch nor cupy is here"
    runtime.close()


if __name__ == "__main__":
    main()
