"""HAMR's Python API, on hmc.Buffer.

>>> from hamr import *
>>> import numpy as np
>>> values = buffer_float(buffer_allocator_malloc, 4, 1.5)
>>> array = np.array(values.get_host_accessible(), copy=False)   # no copy
>>> array *= 2
>>> str(values)
'{3, 3, 3, 3}'
>>> same = buffer(array)                                         # no copy, whatever the array's library is

A buffer's memory is zero, not uninitialized. Failures raise hmc.Error; HAMR prints a text and returns -1 or aborts.

Order. A handle states the buffer's stream in both array interfaces, as HAMR's does. Transfers to the host, and copies that a
handle refers to, are complete when a call returns, in every transfer mode. Device memory that the handle shares with the buffer
is valid in the order of that stream: cupy and numba order their work after it. A buffer over an array waits for the stream of the
array's interface, and uses it from then on.
"""

import sys

import hmc

# The numbers are HAMR's.
buffer_allocator_same, buffer_allocator_none = -2, -1
(buffer_allocator_cpp, buffer_allocator_malloc, buffer_allocator_cuda, buffer_allocator_cuda_async, buffer_allocator_cuda_uva,
 buffer_allocator_cuda_host, buffer_allocator_hip, buffer_allocator_hip_uva, buffer_allocator_openmp) = range(9)
buffer_transfer_async, buffer_transfer_sync_host, buffer_transfer_sync = range(3)

_NAMES = ("cpp", "malloc", "cuda_malloc_allocator", "cuda_malloc_async_allocator", "cuda_malloc_uva_allocator",
          "cuda_malloc_host_allocator", "hip_malloc_allocator", "hip_malloc_uva_allocator", "openmp_allocator")
# HMC's allocators by HAMR's number.
_ALLOCATORS = ("host_new", "host_malloc", "cuda", "cuda_async", "cuda_managed", "cuda_pinned", "hip", "hip_managed", "openmp")
_HOST = {buffer_allocator_cpp, buffer_allocator_malloc, buffer_allocator_cuda_uva, buffer_allocator_cuda_host,
         buffer_allocator_hip_uva}
_CUDA = {buffer_allocator_cuda, buffer_allocator_cuda_async, buffer_allocator_cuda_uva}
_HIP = {buffer_allocator_hip, buffer_allocator_hip_uva}
_WITH_STREAMS = _CUDA | _HIP | {buffer_allocator_cuda_host}
_PER_THREAD = 2  # the default stream of the calling thread, in CUDA and HIP


def _place(alloc):
    if alloc not in range(len(_ALLOCATORS)):
        raise ValueError(f"there is no memory of the allocator {get_allocator_name(alloc)}")
    return _ALLOCATORS[alloc]


def get_allocator_name(alloc):
    return _NAMES[alloc] if alloc in range(len(_NAMES)) else "the allocator name is not known"


# Whether code of a technology can access the allocator's memory without a copy. HAMR's answers: CUDA, HIP and OpenMP have the
# same device.
def host_accessible(alloc):
    return int(alloc in _HOST)


def cuda_accessible(alloc):
    return int(alloc in _CUDA or alloc in _HIP or alloc == buffer_allocator_openmp)


def hip_accessible(alloc):
    return int(alloc in _CUDA or alloc in _HIP)


def openmp_accessible(alloc):
    return int(alloc in _CUDA or alloc == buffer_allocator_openmp)


def assert_valid_allocator(alloc):
    assert alloc in range(len(_ALLOCATORS)), get_allocator_name(alloc)


def get_device_allocator():
    """For memory of this machine's accelerator; malloc if it has none."""
    where = hmc.Buffer(0).on("device").allocator
    return {"cuda": buffer_allocator_cuda_async, "hip": buffer_allocator_hip}.get(where, buffer_allocator_malloc)


def get_host_allocator():
    """For host memory that this machine's accelerator copies fastest."""
    return buffer_allocator_cuda_host if get_device_allocator() == buffer_allocator_cuda_async else buffer_allocator_malloc


class stream:
    """A stream of CUDA or HIP, by its number. The default is the default stream of the calling thread."""

    def __init__(self, handle=_PER_THREAD):
        self.handle = int(handle)

    def get_stream(self):
        return self.handle

    def synchronize(self):
        where = {buffer_allocator_cuda_async: "cuda", buffer_allocator_hip: "hip"}.get(get_device_allocator())
        if where:
            hmc.Buffer(0, "int8", where, mode="async", stream=self.handle).synchronize()
        return 0

    def print(self):
        kind = {buffer_allocator_cuda_async: "cudaStream_t", buffer_allocator_hip: "hipStream_t"}.get(get_device_allocator())
        sys.stderr.write(f"{kind} m_stream = {self.handle:#x}\n" if kind else "empty\n")

    def __bool__(self):
        return self.handle != 0

    def __repr__(self):
        return f"stream({self.handle})"


class buffer_handle:
    """A buffer's elements for numpy, cupy, numba and torch. It keeps the memory.

    m_size, m_read_only, m_stream (a number), and m_host_accessible and m_cuda_accessible: which array interface applies.
    """

    def __init__(self, view, host_accessible, cuda_accessible, strm):
        self._view = view
        self.m_size, self.m_read_only, self.m_stream = len(view), 0, strm
        self.m_host_accessible, self.m_cuda_accessible = int(host_accessible), int(cuda_accessible)

    def get_array_interface(self):
        """shape, typestr, descr, data, strides, mask, stream and version."""
        return self.get_cuda_array_interface() if self.m_cuda_accessible else self.get_numpy_array_interface()

    def get_numpy_array_interface(self):
        if not self.m_host_accessible:
            raise AttributeError("the host can't access this memory; get_host_accessible() returns memory that it can")
        return self._complete(self._view.__array_interface__)

    def get_cuda_array_interface(self):
        if not self.m_cuda_accessible:
            raise AttributeError("CUDA can't access this memory; get_cuda_accessible() returns memory that it can")
        return self._complete(self._view.__cuda_array_interface__)

    def _complete(self, interface):
        return {**interface, "descr": [("", interface["typestr"])], "strides": None, "mask": None, "stream": self.m_stream}

    # AttributeError where it doesn't apply, so that hasattr is right
    __array_interface__ = property(get_numpy_array_interface)
    __cuda_array_interface__ = property(get_cuda_array_interface)

    def __dlpack__(self, **arguments):
        return self._view.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._view.__dlpack_device__()

    def __array__(self, *arguments, **options):
        return self._view.__array__(*arguments, **options)  # raises TypeError

    def __len__(self):
        return len(self._view)

    def __str__(self):
        return (f"{type(self).__name__} m_data = {self._view.ptr} m_size = {self.m_size} m_read_only = {self.m_read_only} "
                f"m_host_accessible = {self.m_host_accessible} m_cuda_accessible = {self.m_cuda_accessible}")

    def __repr__(self):
        return f"{type(self).__name__}({self._view!r})"


class _Lent:
    """An address, as an object with an array interface. It keeps `source`."""

    def __init__(self, source, on_device, **interface):
        self.source = source
        setattr(self, "__cuda_array_interface__" if on_device else "__array_interface__", interface)


class _Buffer:
    """A vector in an allocator's memory, on the current device.

    (alloc), (alloc, n), (alloc, n, value), each also with a stream, or with a stream and a transfer mode, after `alloc`;
    (other), (alloc, other), (alloc, stream, other), (alloc, stream, mode, other): copies;
    (alloc, stream, mode, n, owner, address, source): memory of the object `source`, without a copy.
    """

    dtype = None
    handle = buffer_handle

    def __init__(self, alloc, *rest):
        self._strm, self._sync = stream(), buffer_transfer_async
        if isinstance(alloc, _Buffer):
            alloc, rest = alloc._alloc, (alloc,)
        other = rest[-1] if rest and isinstance(rest[-1], _Buffer) else None
        if other is not None:
            self._strm, self._sync = other._strm, other._sync
        if len(rest) == 6:
            strm, sync, count, _, address, source = rest
            typestr = hmc.Buffer(0, self.dtype).__array_interface__["typestr"]
            lent = _Lent(source, alloc not in _HOST, shape=(count,), typestr=typestr, data=(address, False), version=3)
            self._adopt(hmc.Buffer.from_array(lent), strm, sync)
            return
        if rest and isinstance(rest[0], stream):
            self._strm, rest = rest[0], rest[1:]
            # A mode, unless a count and a value follow.
            has_mode = len(rest) > 1 and rest[0] in range(3) and not (len(rest) == 2 and isinstance(rest[1], float))
            self._sync, rest = (rest[0], rest[1:]) if has_mode else (buffer_transfer_async, rest)
        self._alloc = alloc
        if other is None:
            self._data = self._new(*rest)
        else:
            self._data = other._data.copy(_place(alloc))
            self._data.set_order(**self._order())

    def _adopt(self, data, strm, sync):
        if data.allocator not in _ALLOCATORS:
            raise TypeError(f"buffer: HAMR has no allocator for {data.allocator} memory")
        self._data = data
        self._alloc = _ALLOCATORS.index(data.allocator)
        self._strm, self._sync = strm if isinstance(strm, stream) else stream(strm), sync
        data.set_order(**self._order())

    def _order(self):
        mode = "sync" if self._sync == buffer_transfer_sync else "sync_host"
        return {"mode": mode, "stream": self._strm.handle if self._alloc in _WITH_STREAMS else None}

    def _new(self, count=0, value=None):
        return hmc.Buffer(count, self.dtype, _place(self._alloc), value=value, **self._order())

    # ---- size
    def size(self):
        return len(self._data)

    def __len__(self):
        return len(self._data)

    def reserve(self, n_elem, *_):
        self._data.reserve(n_elem)
        return 0

    def resize(self, n_elem, value=None):
        self._data.resize(n_elem, value)
        return 0

    def free(self):
        self._data = self._new()
        return 0

    def swap(self, other):
        if type(self) is not type(other):
            raise TypeError(f"swap: {type(self).__name__} and {type(other).__name__} have different elements")
        self.__dict__, other.__dict__ = other.__dict__, self.__dict__

    def move(self, alloc):
        self._data.move(_place(alloc))
        self._alloc = alloc
        self._data.set_order(**self._order())
        return 0

    # ---- access
    def _handle(self, view, host=0, cuda=0):
        both = self.host_accessible() and self.cuda_accessible() and view.ptr == self._data.ptr
        return self.handle(view, host or both, cuda or both, self._strm.handle)

    def get_host_accessible(self):
        return self._handle(self._data.host(), host=1)

    def get_cuda_accessible(self):
        return self._handle(self._on("cuda"), cuda=1)

    def get_hip_accessible(self):
        return self._handle(self._on("hip"), cuda=1)

    def get_openmp_accessible(self):
        view = self._data.on("openmp")
        return self._handle(view, host=hasattr(view, "__array_interface__"), cuda=hasattr(view, "__cuda_array_interface__"))

    def get_device_accessible(self):
        where = {buffer_allocator_cuda_async: "cuda", buffer_allocator_hip: "hip"}.get(get_device_allocator())
        return self._handle(self._on(where), cuda=1) if where else self.get_host_accessible()

    def _on(self, technology):
        """A GPU's view. HAMR copies pinned memory to the device, because kernels read it slowly."""
        if self._alloc != buffer_allocator_cuda_host:
            return self._data.on(technology)
        copy = self._data.copy(technology)
        copy.synchronize()
        return copy.on(technology)

    def host_accessible(self):
        return host_accessible(self._alloc)

    def cuda_accessible(self):
        return cuda_accessible(self._alloc)

    def hip_accessible(self):
        return hip_accessible(self._alloc)

    def openmp_accessible(self):
        return openmp_accessible(self._alloc)

    def device_accessible(self):
        known = {buffer_allocator_cuda_async: cuda_accessible, buffer_allocator_hip: hip_accessible}
        return known.get(get_device_allocator(), host_accessible)(self._alloc)

    def data(self):
        """The address."""
        return self._data.ptr

    def get_allocator(self):
        return self._alloc

    def get_owner(self):
        """The device; -1 for host memory."""
        on_host = self._alloc in (buffer_allocator_cpp, buffer_allocator_malloc, buffer_allocator_cuda_host)
        return -1 if on_host else self._data.device

    # ---- order
    def get_stream(self):
        return self._strm

    def set_stream(self, strm, sync=buffer_transfer_async):
        self._adopt(self._data, strm, sync)

    def get_transfer_mode(self):
        return self._sync

    def set_transfer_asynchronous(self):
        self.set_stream(self._strm, buffer_transfer_async)

    def set_transfer_sycnhronous_host(self):
        self.set_stream(self._strm, buffer_transfer_sync_host)

    def set_transfer_sycnhronous(self):
        self.set_stream(self._strm, buffer_transfer_sync)

    def synchronize(self):
        self._data.synchronize()
        return 0

    def _texts(self):
        return [f"{value:g}" if isinstance(value, float) else str(value) for value in self._data.tolist()]

    def print(self):
        """To stderr: the allocator, the device, the size and the elements."""
        sys.stderr.write(f"m_alloc = {get_allocator_name(self._alloc)}, m_owner = {self.get_owner()}, m_size = {self.size()}, "
                         f"m_data = {', '.join(self._texts())}\n")
        return 0

    _print = print

    def __str__(self):
        values = self._texts()
        lines = [", ".join(values[i:i + 8]) for i in range(0, len(values), 8)]
        return "{" + ", \n".join(lines) + "}"


def _declare():
    """buffer_float, buffer_handle_float and so on."""
    kinds = {"float": "float32", "double": "float64", "char": "int8", "signed_char": "int8", "short": "int16", "int": "int32",
             "long": "int64", "long_long": "int64", "unsigned_char": "uint8", "unsigned_short": "uint16",
             "unsigned_int": "uint32", "unsigned_long": "uint64", "unsigned_long_long": "uint64"}
    for name, dtype in kinds.items():
        handle = type("buffer_handle_" + name, (buffer_handle,), {"__module__": __name__})
        globals()[handle.__name__] = handle
        made = type("buffer_" + name, (_Buffer,), {"__module__": __name__, "dtype": dtype, "handle": handle})
        globals()[made.__name__] = made


_declare()
_BY_DTYPE = {made.dtype: made for made in (
    buffer_float, buffer_double, buffer_char, buffer_short, buffer_int, buffer_long, buffer_unsigned_char,
    buffer_unsigned_short, buffer_unsigned_int, buffer_unsigned_long)}


def buffer(obj, **kwargs):
    """A buffer over the memory of an array, a tensor or another object that hmc.Buffer.from_array reads, without a copy.

    It holds the object. stream=: by default the object's, else the default stream of the calling thread. sync=: by default
    buffer_transfer_sync_host. AttributeError if the object has no memory to share.
    """
    try:
        data = hmc.Buffer.from_array(obj)
    except TypeError as error:
        if hasattr(obj, "__array_interface__") or hasattr(obj, "__cuda_array_interface__"):
            raise
        raise AttributeError(str(error)) from error
    if data.dtype not in _BY_DTYPE:
        raise TypeError(f"buffer: HAMR has no buffers of {data.dtype}")
    strm = kwargs.get("stream")
    if strm is None:
        strm = (getattr(obj, "__cuda_array_interface__", None) or {}).get("stream")
    made = _BY_DTYPE[data.dtype]
    self = made.__new__(made)
    self._adopt(data, _PER_THREAD if strm is None else strm, kwargs.get("sync", buffer_transfer_sync_host))
    return self


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("hmc", "sys")]
