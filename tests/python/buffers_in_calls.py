"""hmc.Buffer and device memory in calls, streams, windows and threads, on fake drivers: python buffers_in_calls.py NAME."""
import ctypes
import gc
import mmap
import os
import subprocess
import sys
import threading
import weakref

sys.dont_write_bytecode = True
from fake_devices import FAKES, DeviceArray, Late, cuda, job, pattern, raises, run_one_test

import numpy as np

import hmc


# ---- streams

def test_modes_and_streams():
    stream = cuda.stream()
    values = pattern(5000, "float32", 4)
    for mode, users in (("async", stream), ("async", None), ("sync_host", stream), ("sync", stream), ("sync", None)):
        buffer = hmc.Buffer(5000, "float32", "cuda", mode=mode, stream=users)
        assert buffer.mode == mode and (buffer.stream == users or users is None)
        buffer.synchronize()
        own = buffer.stream
        assert buffer.__cuda_array_interface__["stream"] == own and (own is None) == (mode == "sync" and users is None)
        with Late():
            source = values.copy()
            buffer.assign(source)
            if mode != "sync":
                assert not cuda.is_idle(own)  # in flight
            source[:] = 0                     # the call has returned, so the source is ours
            assert np.array_equal(np.asarray(buffer.host()), values)
            buffer.set(0, values[::-1].copy())
            assert buffer.get(1, np.zeros(2, "float32")).tolist() == values[::-1][1:3].tolist()
        buffer.set_order("sync")
        assert buffer.stream is None and buffer.tolist() == values[::-1].tolist()
    assert hmc.Buffer(1, "int8", "cuda", stream=1).__cuda_array_interface__["stream"] == 1
    assert hmc.Buffer(1, "int8", "cuda", stream=2).__cuda_array_interface__["stream"] == 2


def check_calls(rt, make):
    """Collectives and verbs read what a device's stream still writes. `make`: an array with such work."""
    count, size, rank = 3000, rt.size, rt.rank
    mine = lambda call, r=rank: pattern(count, "float64", 10 * call + r)
    total = lambda call: sum(mine(call, r) for r in range(size))

    def late(call):
        """An array in whose memory mine(call) arrives late."""
        array = make(np.zeros(count))
        array.launch(mine(call))
        return array

    with hmc.Window(rt.world, 8 * count) as win, Late(5_000):
        array = late(1)
        rt.world.allreduce(array)
        assert np.array_equal(array.read(), total(1))
        out = np.zeros(count)
        rt.world.allreduce(late(2), out=out)
        assert np.array_equal(out, total(2))
        rt.world.iallreduce(late(3), out=out).wait()
        assert np.array_equal(out, total(3))
        gathered = np.zeros(count * size)
        rt.world.allgather(late(4), out=gathered)
        assert np.array_equal(gathered, np.concatenate([mine(4, r) for r in range(size)]))
        for call, put in ((5, lambda a: win.put(right, 0, a)), (6, lambda a: win.put_nb(right, 0, a).wait())):
            right, left = (rank + 1) % size, (rank - 1) % size
            put(late(call))
            rt.world.barrier()
            assert np.array_equal(win.array(count, float), mine(call, left)), call
            rt.world.barrier()
        # An output: the stream's earlier writes don't arrive after the call's.
        array = late(7)
        rt.world.allreduce(mine(8), out=array)
        assert np.array_equal(array.read(), total(8))
        array = late(9)
        win.get(right, 0, array)
        assert np.array_equal(array.read(), mine(6, rank))
        rt.world.barrier()


class Exporter(DeviceArray):
    """As torch's tensors: DLPack, which orders the object's stream before the consumer's."""

    def __init__(self, values, stream):
        super().__init__(values, stream)
        lent = type("Lent", (), {"__cuda_array_interface__": self.__dict__.pop("__cuda_array_interface__")})()
        self.buffer = hmc.Buffer.from_array(lent)

    def __dlpack_device__(self):
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        if stream is not None:
            event = ctypes.c_void_p()
            cuda("cuEventCreate", ctypes.byref(event), 2)
            cuda("cuEventRecord", event, ctypes.c_void_p(self.stream))
            cuda("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
            cuda("cuEventDestroy_v2", event)
        return self.buffer.__dlpack__(stream=-1, max_version=max_version)


class RefusesBuffers(mmap.mmap):
    """As cupy's arrays: the type has the buffer protocol, and refuses it, because the memory is a device's."""

    def __new__(cls, values, stream):
        del values, stream
        return super().__new__(cls, -1, 1)

    def __init__(self, values, stream):
        self.close()  # from now on no buffers
        self.array = DeviceArray(values, stream)
        self.__cuda_array_interface__ = self.array.__cuda_array_interface__
        self.launch, self.read = self.array.launch, self.array.read


def calls_on_each_rank():
    with hmc.init() as rt:
        apart, blocking = cuda.stream(), cuda.stream(0)
        check_calls(rt, lambda values: DeviceArray(values, apart))
        check_calls(rt, lambda values: DeviceArray(values, blocking))
        check_calls(rt, lambda values: DeviceArray(values, None, number=1))  # the legacy default stream
        check_calls(rt, lambda values: DeviceArray(values, 2))               # the thread's default stream
        check_calls(rt, lambda values: Exporter(values, apart))
        check_calls(rt, lambda values: RefusesBuffers(values, apart))
        closed = mmap.mmap(-1, 1)
        closed.close()
        raises(ValueError, lambda: rt.world.allreduce(closed), "mmap closed")
        wrong = DeviceArray(np.zeros(3), None, number=0)
        raises(ValueError, lambda: rt.world.allreduce(wrong), "stream 0")
        host = np.zeros(3)
        lying = type("Lying", (), {"__cuda_array_interface__": {**host.__array_interface__, "stream": 1}})()
        raises(ValueError, lambda: rt.world.allreduce(lying), "no vendor library")
        buffer = hmc.Buffer(100, "float32", "cuda", value=rt.rank + 1)
        rt.world.allreduce(buffer, op=hmc.max)
        assert buffer.tolist() == [rt.size] * 100


def test_calls_wait_for_the_stream():
    for ranks in (1, 2, 3):
        job(ranks, calls_on_each_rank)


# ---- windows over existing memory

def windows_on_each_rank():
    with hmc.init() as rt:
        right, left, count = (rt.rank + 1) % rt.size, (rt.rank - 1) % rt.size, 2000
        stream = cuda.stream()
        makers = {"numpy": lambda: np.zeros(count), "device": lambda: DeviceArray(np.zeros(count), stream),
                  "buffer": lambda: hmc.Buffer(count), "pinned": lambda: hmc.Buffer(count, allocator="cuda_pinned"),
                  "hip": lambda: hmc.Buffer(count, allocator="hip", device=1), "bytearray": lambda: bytearray(8 * count)}
        for number, (name, make) in enumerate(makers.items()):
            memory = make()
            values = lambda rank, shift=number: pattern(count, "float64", 5 * rank + shift)
            with hmc.Window(rt.world, memory) as win:
                assert win.nbytes == 8 * count
                win.put(right, 0, values(rt.rank))
                rt.world.barrier()
                if name == "bytearray":
                    got = np.frombuffer(memory)
                elif hasattr(memory, "read"):
                    got = memory.read()
                else:
                    got = np.asarray(memory.tolist())
                assert np.array_equal(got, values(left)), name
                back = win.get(right, 0, np.zeros(count))
                assert np.array_equal(back, values(rt.rank)), name
                rt.world.barrier()
        # The window keeps the memory.
        array = np.zeros(count)
        seen = weakref.ref(array)
        win = hmc.Window(rt.world, array)
        del array
        gc.collect()
        assert seen() is not None
        win.put(right, 0, pattern(count, "float64", rt.rank))
        rt.world.barrier()
        assert np.array_equal(seen(), pattern(count, "float64", left))
        rt.world.barrier()
        win.close()
        del win
        gc.collect()
        assert seen() is None
        raises(BufferError, lambda: hmc.Window(rt.world, b"constant"))
        # The own part of existing host memory; other ranks don't map it.
        array = pattern(6, "float64", rt.rank)
        with hmc.Window(rt.world, array) as win:
            assert win.array(6, float).ctypes.data == array.ctypes.data and len(win.memory(offset=8)) == 40
            assert win.array(2, float, offset=16).tolist() == array[2:4].tolist()
            assert rt.size == 1 or win.array(6, float, rank=right) is None
            raises(hmc.Error, lambda: win.array(7, float))
        with hmc.Window(rt.world, hmc.Buffer(4, allocator="cuda")) as win:
            assert win.array(4, float) is None
        # A size is any integer.
        for size in (np.int64(64 * (rt.rank + 1)), np.array(64 * (rt.rank + 1)), 64 * (rt.rank + 1)):
            with hmc.Window(rt.world, size) as win:
                assert win.nbytes == 64 * (rt.rank + 1)
                rt.world.barrier()
        with hmc.Window(rt.world, nbytes=8) as win, hmc.Window(rt.world, memory=np.array([3])) as other:
            assert win.nbytes == 8 and other.array(1, int)[0] == 3
        raises(ValueError, lambda: hmc.Window(rt.world, -1), "negative")
        raises(TypeError, lambda: hmc.Window(rt.world, 4096.0), "integer")
        raises(OverflowError, lambda: hmc.Window(rt.world, 2**70))


def test_windows_over_existing_memory():
    for ranks in (1, 2, 3, 4, 5, 8):
        job(ranks, windows_on_each_rank)


def other_devices_on_each_rank():
    """DLPack has no numbers for their memory."""
    for vendor in ("musa", "cnrt", "acl"):
        os.environ[f"HMC_{vendor.upper()}_LIBRARY"] = os.path.join(FAKES, f"libfake_{vendor}.so")
    with hmc.init() as rt:
        right, left, count = (rt.rank + 1) % rt.size, (rt.rank - 1) % rt.size, 300
        for number, allocator in enumerate(("musa", "cnrt", "acl", "openmp")):
            values = lambda rank, shift=number: pattern(count, "float64", 7 * rank + shift)
            buffer = hmc.Buffer(count, allocator=allocator)
            buffer.assign(values(rt.rank))
            rt.world.allreduce(buffer)
            total = sum(values(rank) for rank in range(rt.size))
            assert buffer.tolist() == total.tolist(), allocator
            with hmc.Window(rt.world, 8 * count) as win:
                win.put(right, 0, buffer.copy())
                rt.world.barrier()
                assert win.array(count, float).tolist() == total.tolist()
                buffer.assign(values(rt.rank, 9))
                rt.world.sendrecv(buffer.host(), right, back := hmc.Buffer(count, allocator=allocator), left)
                assert back.tolist() == values(left, 9).tolist(), allocator


def test_buffers_of_other_devices_in_calls():
    for ranks in (1, 2, 3):
        job(ranks, other_devices_on_each_rank)


def test_libraries_of_a_vendor_that_the_program_loads_later():
    program = "import hmc; hmc.Buffer(1); import fake_devices as f; a = f.DeviceArray(f.pattern(3, 'int32', 0), number=1); " \
              "a.launch(f.pattern(3, 'int32', 1)); b = hmc.Buffer.from_array(a); " \
              "assert b.allocator == 'cuda' and b.tolist() == [1, 8, 15], b"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, cwd=os.path.dirname(os.path.abspath(__file__)))


def test_capsules_that_outlive_the_call_are_consumed():
    """Another consumer of a capsule can't free memory that HMC still uses."""
    with hmc.init() as rt:
        out = np.zeros(4)
        keepers = {"from_array": hmc.Buffer.from_array, "window": lambda c: hmc.Window(rt.world, c), "borrow": hmc.IOBuffer.borrow,
                   "request": lambda c: rt.world.iallreduce(c, out=out), "plan": lambda c: rt.world.plan_allreduce(c, out=out)}
        for version in (None, (1, 0)):
            for name, keep in keepers.items():
                array = np.arange(4.0)
                seen = weakref.ref(array)
                buffer = hmc.Buffer.from_array(array)
                del array
                capsule = buffer.__dlpack__(max_version=version)
                del buffer
                rt.world.allreduce(capsule, out=out)  # borrows it
                assert out.tolist() == [0, 1, 2, 3] and '"dltensor' in repr(capsule)
                kept = keep(capsule)
                assert '"used_dltensor' in repr(capsule), name
                raises(TypeError, lambda c=capsule: hmc.Buffer.from_array(c), "capsule")
                del capsule
                gc.collect()
                assert seen() is not None, name
                if name == "request":
                    kept.wait()
                if name == "window":
                    kept.close()
                del kept
                gc.collect()
                assert seen() is None, name


# ---- lifetimes in numbers

def test_nothing_leaks():
    source, device = np.zeros(100), DeviceArray(np.zeros(100), cuda.stream())
    stream = cuda.stream()

    def grow(buffer):
        view = np.asarray(buffer)
        buffer.resize(300)
        return view
    calls = {
        "new": lambda: hmc.Buffer(100, "float32", "cuda", value=1), "async": lambda: hmc.Buffer(100, allocator="cuda", mode="async"),
        "from_array": lambda: hmc.Buffer.from_array(source), "of device": lambda: hmc.Buffer.from_array(device),
        "asarray": lambda: np.asarray(hmc.Buffer.from_array(source)), "from_dlpack": lambda: np.from_dlpack(hmc.Buffer(10)),
        "unused capsule": lambda: hmc.Buffer(10, allocator="cuda").__dlpack__(max_version=(1, 0)),
        "legacy capsule": lambda: hmc.Buffer.from_array(hmc.Buffer(10).__dlpack__()),
        "host": lambda: np.asarray(hmc.Buffer.from_array(device).host()), "on": lambda: hmc.Buffer.from_array(source).on("cuda"),
        "interface": lambda: hmc.Buffer(5, "int8", "cuda", stream=stream).__cuda_array_interface__,
        "numpy's capsule": lambda: hmc.Buffer.from_array(source.__dlpack__()), "memoryview": lambda: memoryview(hmc.Buffer(10)),
        "bytes": lambda: bytes(hmc.Buffer(10, allocator="cuda")), "assign": lambda: hmc.Buffer(1).assign(hmc.Buffer(10)),
        "grow": lambda: grow(hmc.Buffer(100)), "no attribute": lambda: hasattr(hmc.Buffer(1), "__cuda_array_interface__"),
        "error": lambda: raises(TypeError, lambda: hmc.Buffer.from_array(np.zeros(1, bool))),
    }
    for name, call in calls.items():
        times = 10**4 if name in ("from_array", "asarray", "from_dlpack", "legacy capsule", "no attribute", "error") else 1000
        for _ in range(100):
            call()
        gc.collect()
        references, blocks, live = (sys.getrefcount(source), sys.getrefcount(device)), sys.getallocatedblocks(), cuda.live()
        for _ in range(times):
            call()
        gc.collect()
        assert (sys.getrefcount(source), sys.getrefcount(device)) == references, name
        assert sys.getallocatedblocks() - blocks < 100, (name, sys.getallocatedblocks() - blocks)
        assert cuda.live() == live, (name, live, cuda.live())


def test_threads_share_a_buffer():
    buffer = hmc.Buffer(64, "int64", "cuda", mode="async")
    failures = []

    def work(number):
        try:
            for i in range(300):
                buffer.set(8 * number, np.full(8, 1000 * number + i))
                assert buffer.get(8 * number, np.zeros(8, "int64")).tolist() == [1000 * number + i] * 8
                if number == 0:
                    buffer.reserve(64 + i)
                np.asarray(buffer.host())
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    # Another thread drops the last reference.
    array = np.zeros(5)
    seen, held = weakref.ref(array), [hmc.Buffer.from_array(array)]
    del array
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert seen() is None


if __name__ == "__main__":
    run_one_test(globals())
