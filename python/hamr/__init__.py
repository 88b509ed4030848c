"""HAMR's Python API, on hmc.Buffer.

>>> from hamr import *
>>> import numpy as np
>>> values = buffer_float(buffer_allocator_malloc, 4, 1.5)
>>> array = np.array(values.get_host_accessible(), copy=False)   # no copy
>>> array *= 2
>>> str(values)
'{3, 3, 3, 3}'
>>> same = buffer(array)                                         # no copy, whatever the array's library is

A buffer's memory is zero, not uninitialized. Failures raise hmc.Error; HAMR prints a text and returns -1 or aborts. Transfers
to the host, and the copies that a handle refers to, are complete when a call returns, in every transfer mode.
"""

import sys

import hmc

# The numbers are HAMR's.
buffer_allocator_same, buffer_allocator_none = -2, -1
(buffer_allocator_cpp, buffer_allocator_malloc, buffer_allocator_cuda, buffer_allocator_cuda_async, buffer_allocator_cuda_uva,
 buffer_allocator_cuda_host, buffer_allocator_hip, buffer_allocator_hip_uva, buffer_allocator_openmp) = range(9)
buffer_transfer_async, buffer_transfer_sync_host, buffer_transfer_sync = range(3)

_NAMES = {-2: "same", -1: "none", 0: "cpp", 1: "malloc", 2: "cuda", 3: "cuda_async", 4: "cuda_uva", 5: "cuda_host", 6: "hip",
          7: "hip_uva", 8: "openmp"}
# HMC's allocators by HAMR's number.
_ALLOCATORS = ("host_new", "host_malloc", "cuda", "cuda_async", "cuda_managed", "cuda_pinned", "hip", "hip_managed", "openmp")
_HOST = {buffer_allocator_cpp, buffer_allocator_malloc, buffer_allocator_cuda_uva, buffer_allocator_cuda_host,
         buffer_allocator_hip_uva}
_CUDA = range(buffer_allocator_cuda, buffer_allocator_cuda_host + 1)
_HIP = (buffer_allocator_hip, buffer_allocator_hip_uva)
_PER_THREAD = 2  # the default stream of the calling thread, in CUDA and HIP


def _place(alloc):
    if alloc not in range(len(_ALLOCATORS)):
        raise ValueError(f"there is no memory of the allocator {get_allocator_name(alloc)}")
    return _ALLOCATORS[alloc]


def get_allocator_name(alloc):
    return _NAMES.get(alloc, "unknown")


def host_accessible(alloc):
    return int(alloc in _HOST)


def cuda_accessible(alloc):
    return int(alloc in _CUDA)


def hip_accessible(alloc):
    return int(alloc in _HIP)


def openmp_accessible(alloc):
    return int(alloc == buffer_allocator_openmp)


class stream:
    """A stream of CUDA or HIP, by its number. The default is the default stream of the calling thread."""

    def __init__(self, handle=_PER_THREAD):
        self.handle = int(handle)

    def get_stream(self):
        return self.handle

    def __bool__(self):
        return self.handle != 0

    def __repr__(self):
        return f"stream({self.handle})"


class buffer_handle:
    """A buffer's elements for numpy, cupy, numba and torch. It keeps the memory."""

    def __init__(self, view):
        self._view = view

    def get_numpy_array_interface(self):
        return self._view.__array_interface__

    def get_cuda_array_interface(self):
        return self._view.__cuda_array_interface__

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
        has_streams = self._alloc in _CUDA or self._alloc in _HIP
        return {"mode": mode, "stream": self._strm.handle if has_streams else None}

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

    def move(self, alloc):
        self._data.move(_place(alloc))
        self._alloc = alloc
        self._data.set_order(**self._order())
        return 0

    # ---- access
    def get_host_accessible(self):
        return self.handle(self._data.host())

    def get_cuda_accessible(self):
        return self.handle(self._data.on("cuda"))

    def get_hip_accessible(self):
        return self.handle(self._data.on("hip"))

    def get_openmp_accessible(self):
        return self.handle(self._data.on("openmp"))

    def get_device_accessible(self):
        return self.handle(self._data.on("device"))

    def host_accessible(self):
        return host_accessible(self._alloc)

    def cuda_accessible(self):
        return cuda_accessible(self._alloc)

    def hip_accessible(self):
        return hip_accessible(self._alloc)

    def openmp_accessible(self):
        return openmp_accessible(self._alloc)

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

    def _print(self):
        sys.stderr.write(", ".join(self._texts()))
        return 0

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
    buffer_transfer_sync_host.
    """
    data = hmc.Buffer.from_array(obj)
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
