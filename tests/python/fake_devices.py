"""What the tests of buffers have in common: fake drivers, arrays on their devices, jobs."""
import ctypes
import os
import subprocess
import sys

sys.dont_write_bytecode = True
FAKES = os.environ.get("HMC_TEST_FAKE_DRIVERS", "")
for vendor in ("cuda", "hip"):
    os.environ[f"HMC_{vendor.upper()}_LIBRARY"] = os.path.join(FAKES, f"libfake_{vendor}.so")

import numpy as np

import hmc


class Cuda:
    """The program's own use of libcuda; its context is device 0's."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["HMC_CUDA_LIBRARY"])
        self.library.fake_live.restype = ctypes.c_long
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxPushCurrent_v2", context)

    def __call__(self, name, *arguments):
        assert getattr(self.library, name)(*arguments) == 0, name

    def allocate(self, nbytes):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def free(self, address):
        self("cuMemFree_v2", ctypes.c_uint64(address))

    def stream(self, flags=1):
        """By default a stream that isn't ordered with any other."""
        handle = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(handle), flags)
        return handle.value

    def late(self, us):
        self.library.fake_set_delay_us(us)

    def is_idle(self, stream):
        return self.library.cuStreamQuery(ctypes.c_void_p(stream)) == 0

    def write(self, address, values, stream):
        """As a kernel on a stream that stores the values, which must stay."""
        self("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes),
             ctypes.c_void_p(stream))

    def read(self, address, dtype, count):
        got, stream = np.zeros(count, dtype), self.stream()
        self("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(got.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(got.nbytes),
             ctypes.c_void_p(stream))
        self("cuStreamSynchronize", ctypes.c_void_p(stream))
        self("cuStreamDestroy_v2", ctypes.c_void_p(stream))
        return got

    def live(self, kinds=("memory", "physical", "host", "stream", "event", "mapping")):
        return {kind: self.library.fake_live(kind.encode()) for kind in kinds}


cuda = Cuda() if os.path.exists(os.environ["HMC_CUDA_LIBRARY"]) else None


class DeviceArray:
    """As cupy's arrays: device memory with __cuda_array_interface__, whose values a stream writes late."""

    def __init__(self, values, stream=None, number=None):
        self.values, self.stream = values, stream
        self.ptr = cuda.allocate(max(values.nbytes, 8))
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "data": (self.ptr, False),
                                         "strides": None, "version": 3, "stream": stream if number is None else number}
        self.launch(np.zeros_like(values))
        cuda("cuStreamSynchronize", ctypes.c_void_p(stream))

    def launch(self, values):
        """Later than the work of other streams that doesn't wait for this stream."""
        self.values, self.other = values, np.full_like(values, 55)
        for _ in range(3):
            cuda.write(self.ptr, self.other, self.stream)
        cuda.write(self.ptr, values, self.stream)

    def read(self):
        return cuda.read(self.ptr, self.values.dtype, self.values.shape)

    def __del__(self):
        cuda.free(self.ptr)


class Late:
    """The work of every stream takes this long."""

    def __init__(self, us=20_000):
        self.us = us

    def __enter__(self):
        cuda.late(self.us)

    def __exit__(self, *_):
        cuda.late(0)


def pattern(count, dtype, seed):
    return ((np.arange(count) * 7 + seed) % 101).astype(dtype)


def raises(exception, call, text=""):
    try:
        call()
    except exception as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {exception}")


def job(ranks, function):
    """Runs a function of a test's file on every rank."""
    hmcrun = os.path.join(os.path.dirname(sys.executable), "hmcrun")
    folder, file = os.path.split(os.path.abspath(function.__code__.co_filename))
    program = f"import sys; sys.path.insert(0, {folder!r}); import {file[:-3]} as tests; tests.{function.__name__}()"
    done = subprocess.run([hmcrun, "-np", str(ranks), "--timeout", "100", sys.executable, "-c", program], capture_output=True,
                          text=True, timeout=120, check=False, env={**os.environ, "HMC_TIMEOUT_S": "60"})
    assert done.returncode == 0, done.stdout + done.stderr


def run_one_test(tests):
    """Of a file's functions."""
    if cuda is None:
        print(f"missing: the fake drivers aren't built in {FAKES!r}")
        sys.exit(77)
    tests[sys.argv[1]]()
