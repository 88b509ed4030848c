"""hmc.Buffer and HAMR's API, on fake drivers: python buffers.py NAME."""
import ctypes
import doctest
import gc
import sys
import weakref

sys.dont_write_bytecode = True
from fake_devices import DeviceArray, Late, cuda, pattern, raises, run_one_test

import numpy as np

import hmc

ALLOCATORS = ("host_malloc", "host_new", "cuda", "cuda_async", "cuda_pinned", "cuda_managed", "hip", "hip_async", "hip_pinned",
              "hip_managed", "openmp")
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
ON_DEVICE = ("cuda", "cuda_async", "hip", "hip_async")


# ---- memory and its views

def test_every_allocator_holds_every_type():
    for allocator in ALLOCATORS:
        for number, dtype in enumerate(TYPES):
            buffer = hmc.Buffer(20, dtype, allocator, value=3)
            assert buffer.tolist() == [3] * 20, (allocator, dtype)
            assert (buffer.dtype, buffer.allocator, len(buffer), buffer.itemsize) == (dtype, allocator, 20, np.dtype(dtype).itemsize)
            values = pattern(30, dtype, number)
            buffer.assign(values)
            buffer.append(values[:5])
            buffer.set(3, values[10:12])
            buffer[-1] = 9
            expected = np.concatenate([values, values[:5]])
            expected[3:5] = values[10:12]
            expected[-1] = 9
            assert buffer.tolist() == expected.tolist(), (allocator, dtype)
            assert np.array_equal(np.asarray(buffer.host()), expected)
            assert np.array_equal(buffer.get(4, np.zeros(6, dtype)), expected[4:10])
            buffer.resize(37, 5)
            assert buffer.tolist() == expected.tolist() + [5, 5] and buffer[36] == 5
            buffer.resize(2)
            assert buffer.tolist() == expected.tolist()[:2] and buffer.nbytes == 2 * buffer.itemsize
    for dtype, name in ((np.float32, "float32"), (np.dtype("i8"), "int64"), ("f16", "float16"), (hmc.DType.bf16, "bfloat16"),
                        (float, "float64"), ("e4m3", "float8_e4m3fn")):
        assert hmc.Buffer(1, dtype, value=2).tolist() == [2] and hmc.Buffer(0, dtype).dtype == name


def test_copies_and_moves_between_allocators():
    for one in ALLOCATORS:
        for two in ALLOCATORS:
            buffer = hmc.Buffer(10, "int32", one)
            buffer.assign(pattern(10, "int32", 1))
            copy = buffer.copy(two)
            buffer[0] = 77
            assert copy.tolist() == pattern(10, "int32", 1).tolist() and copy.allocator == two
            buffer.move(two)
            assert buffer.allocator == two and buffer.tolist() == [77] + pattern(10, "int32", 1).tolist()[1:]
    other = hmc.Buffer(3, "int32", "cuda", 1, value=4)
    assert (other.device, other.copy("cuda", 0).device, other.on("cuda", 0).device, other.on("cuda", 1).device) == (1, 0, 0, 1)
    assert other.on("cuda", 1).ptr == other.ptr != other.on("cuda", 0).ptr
    there = other.on("cuda", 0)
    assert cuda.read(there.ptr, "int32", 3).tolist() == [4] * 3


def test_attributes_exist_where_memory_is_accessible():
    for allocator in ALLOCATORS:
        buffer = hmc.Buffer(4, "float32", allocator, value=1)
        for thing in (buffer, buffer.host(), buffer.on("cuda"), buffer.on("hip")):
            on_host = thing.allocator not in ON_DEVICE
            on_gpu = thing.allocator.startswith(("cuda", "hip"))
            assert hasattr(thing, "__array_interface__") == on_host, thing
            assert hasattr(thing, "__cuda_array_interface__") == on_gpu, thing
            assert thing.shape == (4,) and thing.nbytes == 16
            if on_host:
                assert np.asarray(thing).tolist() == [1] * 4
            else:
                raises(TypeError, lambda t=thing: np.asarray(t), "host()")
                interface = thing.__cuda_array_interface__
                assert (interface["shape"], interface["typestr"], interface["version"]) == ((4,), "<f4", 3)
                assert interface["data"] == (thing.ptr, False) and interface["stream"] is None
        assert (buffer.host().ptr == buffer.ptr) == (allocator not in ON_DEVICE)
        assert (buffer.on("cuda").ptr == buffer.ptr) == allocator.startswith("cuda")
        assert (buffer.on("hip").ptr == buffer.ptr) == allocator.startswith("hip")
        assert buffer.on("device").ptr == buffer.on("cuda").ptr or not allocator.startswith("cuda")


def test_numpy_to_buffer_to_numpy_without_a_copy():
    """In both orders of destruction."""
    for drops_first in (True, False):
        source = pattern(1000, "float64", 2)
        address, expected = source.ctypes.data, source.copy()
        seen = weakref.ref(source)
        buffer = hmc.Buffer.from_array(source)
        assert buffer.ptr == address
        assert np.from_dlpack(buffer).ctypes.data == address
        view = np.asarray(buffer)
        assert view.ctypes.data == address
        view[3] = expected[3] = -5
        assert buffer[3] == -5 and source[3] == -5
        del source
        gc.collect()
        assert seen() is not None
        if drops_first:
            del buffer
            gc.collect()
            assert seen() is not None and np.array_equal(view, expected)
            del view
        else:
            del view
            gc.collect()
            assert seen() is not None and buffer.tolist() == expected.tolist()
            del buffer
        gc.collect()
        assert seen() is None


def test_views_keep_memory_that_the_buffer_leaves():
    exports = {"asarray": np.asarray, "dlpack": np.from_dlpack, "host": lambda b: np.asarray(b.host()),
               "cuda": lambda b: hmc.Buffer.from_array(type("Lent", (), {
                   "source": b, "__cuda_array_interface__": b.__cuda_array_interface__})()).host()}
    changes = {"resize": lambda b: b.resize(10**6), "move": lambda b: b.move("hip"), "assign": lambda b: b.assign(np.zeros(10**6))}
    for export, view_of in exports.items():
        for change, apply in changes.items():
            buffer = hmc.Buffer(1000, "float64", "cuda_pinned" if export == "cuda" else "host_malloc", value=6)
            view = np.asarray(view_of(buffer))
            address, before = view.ctypes.data, buffer.ptr
            apply(buffer)
            others = [hmc.Buffer(1000, allocator=a) for a in ("host_malloc", "cuda_pinned") for _ in range(20)]
            assert address == before != buffer.ptr and address not in [other.ptr for other in others], (export, change)
            assert view.tolist() == [6] * 1000, (export, change)
            if export != "cuda":  # there the test keeps the buffer itself
                del buffer
                gc.collect()
            others.append(hmc.Buffer(1000))
            assert others[-1].ptr != address and view[999] == 6, (export, change)


def test_dlpack_in_both_versions():
    before = cuda.live()
    for allocator, device in (("host_malloc", (1, 0)), ("cuda", (2, 1)), ("cuda_pinned", (3, 0)), ("cuda_managed", (13, 1)),
                              ("hip", (10, 1)), ("hip_pinned", (11, 0))):
        for version in (None, (0, 8), (1, 0), (1, 1)):
            buffer = hmc.Buffer(6, "int16", allocator, device[1], value=8)
            assert buffer.__dlpack_device__() == device
            capsule = buffer.__dlpack__(max_version=version)
            name = "dltensor_versioned" if version and version[0] == 1 else "dltensor"
            assert f'"{name}"' in repr(capsule)
            other = hmc.Buffer.from_array(capsule)
            assert other.ptr == buffer.ptr and other.allocator == allocator and other.dtype == "int16"
            del buffer, capsule
            gc.collect()
            assert other.tolist() == [8] * 6
            copy = hmc.Buffer.from_array(other.__dlpack__(copy=True, max_version=version))
            assert copy.ptr != other.ptr and copy.tolist() == [8] * 6
            other.__dlpack__(dl_device=device)
            raises(BufferError, lambda o=other: o.__dlpack__(dl_device=(7, 0)))
    del other, copy
    gc.collect()
    assert cuda.live(("memory", "physical", "host")) == {k: before[k] for k in ("memory", "physical", "host")}
    buffer = hmc.Buffer(3, "float32", value=2)
    view = np.from_dlpack(buffer)
    del buffer
    assert view.tolist() == [2] * 3
    assert hmc.Buffer(2, "bfloat16").__dlpack__() is not None
    try:
        import torch
    except ImportError:
        return
    buffer = hmc.Buffer(3, "bfloat16", value=2)
    tensor = torch.from_dlpack(buffer)
    assert tensor.dtype == torch.bfloat16 and tensor.data_ptr() == buffer.ptr
    tensor[1] = 5
    assert buffer.tolist() == [2, 5, 2]
    del buffer
    gc.collect()
    assert tensor.tolist() == [2, 5, 2]
    source = torch.arange(5, dtype=torch.int64)
    buffer = hmc.Buffer.from_array(source)
    address = source.data_ptr()
    del source
    assert buffer.ptr == address and buffer.tolist() == [0, 1, 2, 3, 4]


def test_wrong_arguments_of_buffers():
    raises(BufferError, lambda: hmc.Buffer.from_array(b"constant"), "read-only")
    raises(ValueError, lambda: hmc.Buffer.from_array(np.zeros((4, 4))[:, 1]), "contiguous")
    raises(TypeError, lambda: hmc.Buffer.from_array(np.zeros(3, bool)), "element type")
    raises(ValueError, lambda: hmc.Buffer(1, "complex64"), "complex64")
    raises(ValueError, lambda: hmc.Buffer(1, allocator="disk"), "host_malloc")
    raises(ValueError, lambda: hmc.Buffer(1, mode="eager"), "sync_host")
    raises(ValueError, lambda: hmc.Buffer(1, "int8", value=300), "element type")
    raises(hmc.Error, lambda: hmc.Buffer(1, "int8", "cuda", 9), "device")
    raises(hmc.Error, lambda: hmc.Buffer(1, "int8", "musa"), "musa")
    raises(hmc.Error, lambda: hmc.Buffer(1, stream=3), "stream")
    raises(hmc.Error, lambda: hmc.Buffer(2**61), "memory")
    buffer = hmc.Buffer(3, "int32")
    raises(IndexError, lambda: buffer[3])
    raises(IndexError, lambda: buffer[-4])
    raises(TypeError, lambda: buffer.assign(np.zeros(2)), "f64")
    raises(hmc.Error, lambda: buffer.set(2, np.zeros(2, "int32")), "range")
    raises(hmc.Error, lambda: buffer.get(2, np.zeros(2, "int32")), "range")
    assert buffer.tolist() == [0, 0, 0]
    assert hmc.Buffer(0).tolist() == [] and np.asarray(hmc.Buffer(0)).shape == (0,)
    assert len(hmc.Buffer.from_array(np.zeros(0))) == 0


def test_element_types_by_their_names():
    names = {"int8": "i1 |i1 b byte", "uint8": "u1 B ubyte", "int16": "i2 <i2 h short", "uint16": "u2 H ushort",
             "int32": "i4 <i4 =i4 i intc i32", "uint32": "u4 I uintc u32", "int64": "<i8 l q int longlong i64",
             "uint64": "<u8 L Q uint u64", "float16": "f2 <f2 e half f16", "float32": "f4 <f4 f single f32",
             "float64": "f8 <f8 d float double f64", "bfloat16": "bf16", "float8_e5m2": "e5m2"}
    for dtype, others in names.items():
        for name in (dtype, *others.split()):
            assert hmc.Buffer(0, name).dtype == dtype, name
            if name[0] in "<=|" or (len(name) == 1 and name not in "lLqQ"):
                assert np.dtype(name).name == dtype
    for wrong in (">f4", np.dtype(">f4"), "V2", "", "c8", "f4 "):
        raises(ValueError, lambda w=wrong: hmc.Buffer(1, w), "no element type")
    for name in ("i8", "u8"):  # 8 bits or 8 bytes
        raises(ValueError, lambda n=name: hmc.Buffer(1, n), "int64")
        assert hmc.Buffer(1, getattr(hmc.DType, name)).itemsize == 1 and hmc.Buffer(1, np.dtype(name)).itemsize == 8


def test_conversions_to_bytes_arrays_and_memoryviews():
    for allocator in ALLOCATORS:
        for dtype in TYPES:
            values = pattern(9, dtype, 5)
            buffer = hmc.Buffer(9, dtype, allocator)
            buffer.assign(values)
            assert bytes(buffer) == values.tobytes() == bytes(buffer.host()), (allocator, dtype)
            assert f"9 {dtype} in {allocator} memory" in repr(buffer)
            raises(TypeError, lambda b=buffer: b[0:2], "get()")
            if allocator in ON_DEVICE:
                raises(BufferError, lambda b=buffer: memoryview(b), "host()")
                raises(TypeError, lambda b=buffer: b.__array__(), "host()")
                continue
            with memoryview(buffer) as view:
                assert np.asarray(view).tolist() == values.tolist()
                assert (view.format, view.shape, view.strides) == (np.dtype(dtype).char, (9,), (buffer.itemsize,))
                np.asarray(view)[2] = values[2] = 1
            assert buffer.tolist() == values.tolist()
            array = buffer.__array__()
            assert array.dtype == dtype and array.ctypes.data == buffer.ptr
            assert buffer.__array__("float64").tolist() == values.tolist()
            assert buffer.__array__(copy=True).ctypes.data != buffer.ptr
            view = memoryview(buffer)
            buffer.resize(5000)
            others = [hmc.Buffer(9, dtype, allocator) for _ in range(20)]
            assert np.asarray(view).tolist() == values.tolist() and len(others) == 20
    assert memoryview(hmc.Buffer(0)).tolist() == [] and bytes(hmc.Buffer(0, allocator="cuda")) == b""
    raises(BufferError, lambda: memoryview(hmc.Buffer(1, "bfloat16")), "element type")
    assert bytes(hmc.Buffer(2, "bfloat16", value=1)) == b"\x80\x3f" * 2


def test_large_buffers_are_filled():
    for allocator in ALLOCATORS:
        for dtype, value in (("uint8", 7), ("int16", -300), ("float64", 2.5)):
            count = 700_001  # several pieces
            buffer = hmc.Buffer(count, dtype, allocator, value=value)
            assert np.array_equal(np.asarray(buffer.host()), np.full(count, value, dtype)), (allocator, dtype)
            buffer.resize(2 * count)
            buffer.resize(2 * count + 3, 1)
            expected = np.concatenate([np.full(count, value, dtype), np.zeros(count, dtype), np.ones(3, dtype)])
            assert np.array_equal(np.asarray(buffer.host()), expected), (allocator, dtype)


def test_finalizers_use_the_buffer():
    """What a buffer leaves may run Python code that calls the buffer."""
    changes = {"resize": lambda b: b.resize(1000), "reserve": lambda b: b.reserve(1000), "move": lambda b: b.move("cuda"),
               "assign": lambda b: b.assign(np.ones(1000)), "append": lambda b: b.append(np.ones(1000))}
    for name, change in changes.items():
        for make in (lambda: np.zeros(10), lambda: DeviceArray(np.zeros(10), cuda.stream())):
            array, seen = make(), []
            buffer = hmc.Buffer.from_array(array)
            weakref.finalize(array, lambda b=buffer, s=seen: s.append((len(b), len(b.tolist()))))
            is_move_to_itself = name == "move" and buffer.allocator == "cuda"
            del array
            gc.collect()
            change(buffer)
            gc.collect()
            assert seen == ([] if is_move_to_itself else [(len(buffer),) * 2]), (name, seen)
    # A transfer in flight was the last owner of its source.
    device, seen = DeviceArray(pattern(10, "float64", 1), cuda.stream()), []
    with Late():
        copy = hmc.Buffer.from_array(device, mode="async").copy()
        weakref.finalize(device, lambda: seen.append(len(copy)))
        del device
        gc.collect()
        copy.synchronize()
    gc.collect()
    assert seen == [10]


def test_array_interfaces_that_are_refused():
    host = np.zeros(4)

    def lent(**fields):
        return type("Lent", (), {"keep": host, "__array_interface__": {**host.__array_interface__, **fields}})()
    assert len(hmc.Buffer.from_array(lent())) == 4 and len(hmc.Buffer.from_array(lent(mask=None))) == 4
    raises(ValueError, lambda: hmc.Buffer.from_array(lent(mask=np.zeros(4, bool))), "mask")
    raises(TypeError, lambda: hmc.Buffer.from_array(lent(typestr="|O8")), "type object")
    raises(TypeError, lambda: hmc.Buffer.from_array(lent(typestr="<U5")), "element type")
    raises(TypeError, lambda: hmc.Buffer.from_array(np.zeros(2, "complex64")), "complex64")
    with hmc.init() as rt:  # a text of numpy's has four bytes per character
        texts = np.array(["abcde", "fghij"])
        with hmc.Window(rt.world, texts.nbytes) as win:
            win.put(0, 0, type("Lent", (), {"__array_interface__": texts.__array_interface__})())
            assert win.array(2, "<U5").tolist() == texts.tolist()


# ---- HAMR

def test_hamr_examples():
    import hamr
    done = doctest.testmod(hamr)
    assert done.failed == 0 and done.attempted >= 6, done


def test_hamr_chain_computes_4300():
    """HAMR's pipeline: each step reads its inputs where it computes, whatever memory they are in."""
    import hamr
    names = {name: getattr(hamr, name) for name in hamr.__all__}
    allocators = [names["buffer_allocator_" + name] for name in
                  ("cpp", "malloc", "cuda", "cuda_async", "cuda_uva", "cuda_host", "hip", "hip_uva", "openmp")]

    def at(kind, alloc, array):
        """A new buffer with the array's values."""
        return kind(alloc, hamr.buffer(array))
    host = lambda buf: np.array(buf.get_host_accessible(), copy=False)
    for one in allocators:
        for two in allocators:
            ones = hamr.buffer_float(one, 1000, 1.0)
            twos = at(hamr.buffer_float, two, host(ones) * np.float32(2))
            ones.free()
            fours = at(hamr.buffer_double, one, host(hamr.buffer_double(two, 1000, 2.0)) + host(twos))
            thousands = at(hamr.buffer_double, two, host(fours) * 1000)
            # numpy to buffer to numpy, without a copy
            hundreds = host(hamr.buffer_float(one, 1000, 3.0)) * np.float32(100)
            shared = hamr.buffer(hundreds)
            assert shared.data() == hundreds.ctypes.data
            again = host(shared)
            assert again.ctypes.data == hundreds.ctypes.data
            del hundreds, shared
            total = at(hamr.buffer_double, one, host(thousands) + again)
            moved = hamr.buffer_double(two, total)
            assert moved.get_allocator() == two and set(host(moved)) == {4300.0}


def test_hamr_shares_with_numpy_and_cupy():
    from hamr import (buffer, buffer_allocator_cuda, buffer_allocator_malloc, buffer_float, buffer_int, buffer_transfer_sync,
                      buffer_transfer_sync_host, buffer_unsigned_char, stream)
    # C++ to Python, and the buffer goes first
    buf = buffer_float(buffer_allocator_malloc, 256, 3.1415)
    array = np.array(buf.get_host_accessible(), copy=False)
    address = buf.data()
    buf = None
    gc.collect()
    array *= 10000
    assert np.allclose(array, 31415) and array.ctypes.data == address
    # Python to C++, and the array goes first
    array = np.full(20, 2, "int32")
    buf = buffer(array)
    array *= 3
    del array
    gc.collect()
    assert type(buf) is buffer_int and str(buf) == "{6, 6, 6, 6, 6, 6, 6, 6, \n6, 6, 6, 6, 6, 6, 6, 6, \n6, 6, 6, 6}"
    # device memory: cupy's stream orders what is read later
    with Late():
        device = DeviceArray(pattern(50, "float64", 1), cuda.stream())
        buf = buffer(device)
        assert buf.data() == device.ptr and buf.get_allocator() == buffer_allocator_cuda and buf.get_owner() == 0
        assert buf.get_stream().get_stream() == device.stream and buf.get_transfer_mode() == buffer_transfer_sync_host
        device.launch(pattern(50, "float64", 2))
        assert np.array_equal(np.array(buf.get_host_accessible(), copy=False), pattern(50, "float64", 2))
        handle = buf.get_cuda_accessible()
        assert handle.__cuda_array_interface__["data"][0] == device.ptr
        assert handle.get_cuda_array_interface()["stream"] == device.stream
        assert not hasattr(handle, "__array_interface__")
    assert buffer(device, sync=buffer_transfer_sync, stream=1).get_stream().get_stream() == 1
    # a copy, for kernels: complete
    buf = buffer_float(buffer_allocator_malloc, 8, 2.0)
    handle = buf.get_cuda_accessible()
    assert cuda.read(handle.__cuda_array_interface__["data"][0], "float32", 8).tolist() == [2] * 8
    # the remaining forms
    assert str(buffer_int(buffer_allocator_cuda, stream(), buffer_transfer_sync, 3, 7)) == "{7, 7, 7}"
    assert str(buffer_float(buffer_allocator_cuda, stream(), 2, 1.5)) == "{1.5, 1.5}"
    assert buffer_int(buffer_allocator_cuda, stream(), 5).size() == 5 and buffer_int(buffer_allocator_cuda).size() == 0
    source = pattern(6, "int32", 3)
    buf = buffer_int(buffer_allocator_malloc, 0, buffer_transfer_sync, 6, -1, source.ctypes.data, source)
    copy = buffer_int(buf)
    source[0] = 99
    assert buf.data() == source.ctypes.data and str(copy) == "{3, 10, 17, 24, 31, 38}" and str(buf).startswith("{99, 10")
    assert buf.move(buffer_allocator_cuda) == 0 and buf.cuda_accessible() == 1 and buf.host_accessible() == 0
    raises(AttributeError, lambda: buffer(object()), "array_interface")
    # without an array interface: as torch's tensors in host memory, and bytes
    tensor = type("Tensor", (), {"__dlpack__": source.__dlpack__, "__dlpack_device__": source.__dlpack_device__})()
    assert buffer(tensor).data() == source.ctypes.data
    buf = buffer(bytearray([3, 5]))
    assert type(buf) is buffer_unsigned_char and str(buf) == "{3, 5}" and buf.get_stream().get_stream() == 2
    raises(TypeError, lambda: buffer(hmc.Buffer(2, allocator="hip_pinned")), "hip_pinned")
    raises(TypeError, lambda: buffer(np.zeros(2, "float16")), "float16")
    raises(TypeError, lambda: buffer(np.zeros(2, ">i4")), "")


def test_hamr_handles_have_every_property():
    """Of both array interfaces, in the order of the buffer's stream."""
    import hamr
    allocators = {name: getattr(hamr, "buffer_allocator_" + name) for name in
                  ("cpp", "malloc", "cuda", "cuda_async", "cuda_uva", "cuda_host", "hip", "hip_uva", "openmp")}
    users = cuda.stream()
    for name, alloc in allocators.items():
        on_host, on_gpu = name in ("cpp", "malloc", "cuda_uva", "cuda_host", "hip_uva"), name not in ("cpp", "malloc", "cuda_host")
        buf = hamr.buffer_short(alloc, 4, 7)
        for module in (hamr, buf):
            arguments = (alloc,) if module is hamr else ()
            assert module.host_accessible(*arguments) == on_host and module.cuda_accessible(*arguments) == on_gpu, name
            assert module.hip_accessible(*arguments) == (on_gpu and name != "openmp"), name
            assert module.openmp_accessible(*arguments) == (name in ("cuda", "cuda_async", "cuda_uva", "openmp")), name
        assert buf.device_accessible() == on_gpu
        strm = users if name.startswith("cuda") else 2
        buf.set_stream(hamr.stream(strm))
        for kind in ("host", "cuda", "hip", "device"):
            handle = getattr(buf, f"get_{kind}_accessible")()
            both = on_host and on_gpu and handle._view.ptr == buf.data()
            assert (handle.m_size, handle.m_read_only, handle.m_stream) == (4, 0, strm), (name, kind)
            assert handle.m_host_accessible == (kind == "host" or both) and handle.m_cuda_accessible == (kind != "host" or both)
            assert type(handle) is hamr.buffer_handle_short and "m_size = 4 m_read_only = 0 m_host" in str(handle)
            for attribute, applies in (("__array_interface__", handle.m_host_accessible),
                                       ("__cuda_array_interface__", handle.m_cuda_accessible)):
                assert hasattr(handle, attribute) == applies, (name, kind, attribute)
                if not applies:
                    continue
                interface = getattr(handle, attribute)
                assert set(interface) == {"shape", "typestr", "descr", "data", "strides", "mask", "stream", "version"}
                assert interface == {"shape": (4,), "typestr": "<i2", "descr": [("", "<i2")], "data": (interface["data"][0], False),
                                     "strides": None, "mask": None, "stream": strm, "version": 3}
            # CUDA's memory is shared with kernels; pinned memory and host memory are copied.
            if kind == "cuda":
                address = handle.get_array_interface()["data"][0]
                assert (address == buf.data()) == (name in ("cuda", "cuda_async", "cuda_uva")), name
                assert name == "cuda_uva" or cuda.read(address, "int16", 4).tolist() == [7] * 4, name
    assert hamr.get_device_allocator() == allocators["cuda_async"] and hamr.get_host_allocator() == allocators["cuda_host"]
    raises(AttributeError, lambda: hamr.buffer_int(allocators["cuda"], 1).get_cuda_accessible().get_numpy_array_interface(), "host")
    # Device memory is valid in the order of the stream: what is queued there comes first.
    values = pattern(40, "int16", 4)
    with Late():
        buf = hamr.buffer_short(allocators["cuda"], hamr.stream(users), hamr.buffer_transfer_async, 40, 1)
        cuda.write(buf.data(), values, users)
        interface = buf.get_cuda_accessible().__cuda_array_interface__
        assert interface["stream"] == users and not cuda.is_idle(users)
        assert np.array(buf.get_host_accessible(), copy=False).tolist() == values.tolist()
    # the rest of the module
    one, two = hamr.buffer_int(allocators["malloc"], 2, 1), hamr.buffer_int(allocators["cuda"], 3, 2)
    one.swap(two)
    assert (str(one), one.get_allocator(), str(two)) == ("{2, 2, 2}", allocators["cuda"], "{1, 1}")
    raises(TypeError, lambda: one.swap(buf), "different")
    assert hamr.get_allocator_name(allocators["hip"]) == "hip_malloc_allocator" and hamr.stream(users).synchronize() == 0
    raises(AssertionError, lambda: hamr.assert_valid_allocator(hamr.buffer_allocator_none), "not known")


if __name__ == "__main__":
    run_one_test(globals())
