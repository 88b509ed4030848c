"""BM: a pool of host and device memory, with members that join and leave."""

import ctypes
import enum

from memfabric_hybrid import _library as _l


class BmMemType(enum.IntEnum):
    """LOCAL_...: as this process or its device accesses it, for gva_to_va. DEVICE, HOST: the parts of the pool."""
    LOCAL_DEVICE = 0
    LOCAL_HOST = 1
    DEVICE = 2
    HOST = 3


class BmDataOpType(enum.IntFlag):
    """Hints. The pool uses the best way between two members; BigMemory.path() reports it."""
    SDMA = 1
    HOST_RDMA = 2
    ROCE = 2
    HOST_TCP = 4
    DEVICE_RDMA = 8
    HOST_URMA = 16
    HOST_SHM = 32
    DEVICE_URMA = 64
    DEVICE_UBOE = 128


class BmCopyType(enum.IntEnum):
    """L: device memory of this process. H: its host memory. G: the pool; GH: its host parts."""
    L2G = 0
    G2L = 1
    G2H = 2
    H2G = 3
    L2GH = 4
    GH2L = 5
    GH2H = 6
    H2GH = 7
    G2G = 8
    AUTO = 9


class BmGroupEvent(enum.IntEnum):
    JOIN_EVENT = 0
    LEAVE_EVENT = 1


ASYNC_COPY_FLAG = 1
USE_EXTERNAL_STREAM_FLAG = 4


class BmConfig(_l.BmConfigStruct):
    def __init__(self):
        super().__init__()
        _l.lib.smem_bm_config_init(ctypes.byref(self))

    def set_nic(self, nic):
        """tcp://ip:port or tcp://ip/bits:port: TCP uses the interfaces that have an address in this network."""
        self.hcom_url = nic.encode()


_world_size = 0


def initialize(store_url, world_size, device_id, config):
    global _world_size  # pylint: disable=global-statement
    code = _l.lib.smem_bm_init(store_url.encode(), world_size, device_id & 0xFFFF, ctypes.byref(config))
    if code == 0:
        _world_size = world_size
    return code


def uninitialize(flags=0):
    _l.lib.smem_bm_uninit(flags)


def bm_rank_id():
    """The rank; 2**32-1 if there is none."""
    return _l.lib.smem_bm_get_rank_id()


def update_store_url(store_url):
    """Another store, after the end of the first one: for pools that are created afterwards."""
    return _l.lib.smem_bm_update_store_url(store_url.encode())


def handle_of(id, local_dram_size, local_hbm_size, data_op_type, flags):  # pylint: disable=redefined-builtin
    """For create() of this module, and of mf_smem.bm."""
    return _l.lib.smem_bm_create(id, _world_size, data_op_type, local_dram_size, local_hbm_size, flags)


def create(id, local_dram_size, local_hbm_size=0, data_op_type=BmDataOpType.SDMA, flags=0):  # pylint: disable=redefined-builtin
    """A pool of equal parts. This process is a member after join()."""
    return BigMemory(handle_of(id, local_dram_size, local_hbm_size, data_op_type, flags))


def create2(id, local_dram_size=0, max_dram_size=None, local_hbm_size=0,  # pylint: disable=redefined-builtin
            max_hbm_size=None, data_op_type=BmDataOpType.SDMA, enable_56bits_gva=False, flags=0, shm_fd=-1, tag="",
            tag_op_info=""):
    """The same with parts that differ by member; the maxima are the same in all members. shm_fd: the host part."""
    options = _l.BmOptions(
        max_dram_size=max_dram_size or local_dram_size, max_hbm_size=max_hbm_size or local_hbm_size,
        local_dram_size=local_dram_size, local_hbm_size=local_hbm_size, data_op_type=data_op_type,
        flags=flags | (1 << 8 if shm_fd >= 0 else 0), tag=tag.encode(), tag_op_info=tag_op_info.encode(), shm_fd=shm_fd,
        enable_56bits_gva=enable_56bits_gva)
    return BigMemory(_l.lib.smem_bm_create2(id, ctypes.byref(options)))


_event_handlers = []  # each one that was set: its thread may be in it


class BigMemory:
    """A pool. Addresses are numbers. Methods return 0 or a code, or what they are asked for; additions raise RuntimeError."""

    def __init__(self, handle):
        _l.checked(0 if handle else None)
        self._handle = handle

    def join(self, flags=0):
        return _l.lib.smem_bm_join(self._handle, flags)

    def leave(self, flags=0):
        return _l.lib.smem_bm_leave(self._handle, flags)

    def extend_local_mem(self, mem_type=BmMemType.HOST, size=0):
        """`size` more bytes of this process's host part, up to max_dram_size. A member leaves and joins again."""
        return _l.lib.smem_bm_extend_local_mem(self._handle, mem_type, size)

    def set_group_event_handler(self, handler):
        """handler(rank, BmGroupEvent) is called for each join and leave of another member. None: no more calls."""
        function = _l.GroupEvent()
        if handler is not None:
            function = _l.GroupEvent(lambda _handle, rank, event, _context: handler(rank, BmGroupEvent(event)))
            _event_handlers.append(function)
        _l.checked(_l.lib.smem_bm_set_group_event_handler(self._handle, function, None))

    def destroy(self):
        handle, self._handle = self._handle, None
        if handle:
            _l.lib.smem_bm_destroy(handle)

    def __del__(self):
        if getattr(self, "_handle", None):
            self.destroy()

    def local_mem_size(self, mem_type=BmMemType.DEVICE):
        return _l.lib.smem_bm_get_local_mem_size_by_mem_type(self._handle, mem_type)

    def peer_rank_ptr(self, peer_rank, mem_type=BmMemType.DEVICE):
        """0: there is none."""
        return _l.lib.smem_bm_ptr_by_mem_type(self._handle, mem_type, peer_rank) or 0

    def gva_to_va(self, gva, mem_type=BmMemType.LOCAL_HOST):
        """The address at which this process, or its device, accesses the byte; 0: it can't."""
        address = ctypes.c_void_p()
        _l.lib.smem_bm_gva_to_va(self._handle, gva, mem_type, ctypes.byref(address))
        return address.value or 0

    def get_rank_id_by_gva(self, gva):
        """2**32-1: the address isn't in the pool."""
        return _l.lib.smem_bm_get_rank_id_by_gva(self._handle, gva)

    def register(self, addr, size):
        return _l.lib.smem_bm_register_user_mem(self._handle, addr, size)

    def unregister(self, addr):
        return _l.lib.smem_bm_unregister_user_mem(self._handle, addr)

    def copy_data(self, src_ptr, dst_ptr, size, type, flags=0, stream=0):  # pylint: disable=redefined-builtin
        """stream: with USE_EXTERNAL_STREAM_FLAG, the copy comes after its work."""
        params = _l.CopyParams(src_ptr, dst_ptr, size, stream)
        return _l.lib.smem_bm_copy(self._handle, ctypes.byref(params), type, flags)

    def copy_data_batch(self, src_addrs, dst_addrs, sizes, count, type, flags=0, stream=0):  # pylint: disable=redefined-builtin
        if not count == len(src_addrs) == len(dst_addrs) == len(sizes):
            raise ValueError("count isn't the length of each list")
        params = _l.BatchParams(_l.array_of(ctypes.c_void_p, src_addrs), _l.array_of(ctypes.c_void_p, dst_addrs),
                                _l.array_of(ctypes.c_uint64, sizes), count, stream)
        return _l.lib.smem_bm_copy_batch(self._handle, ctypes.byref(params), type, flags)

    def wait(self):
        """Waits for all copies with ASYNC_COPY_FLAG."""
        return _l.lib.smem_bm_wait(self._handle)

    # ---- additions

    def copy_data_2d(self, src_ptr, src_pitch, dst_ptr, dst_pitch, width, height, type,  # pylint: disable=redefined-builtin
                     flags=0):
        _l.checked(_l.lib.smem_bm_copy_2d(self._handle, src_ptr, src_pitch, dst_ptr, dst_pitch, width, height, type, flags))

    def barrier(self, size):
        """The first `size` members wait for each other."""
        _l.checked(_l.lib.smem_bm_barrier(self._handle, size))

    def path(self, peer_rank, mem_type=BmMemType.DEVICE):
        """"load_store: reason": the way to a part of a member."""
        text = ctypes.create_string_buffer(1024)
        if _l.lib.smem_bm_path(self._handle, mem_type, peer_rank, text, len(text)) < 0:
            raise RuntimeError(_l.last_error())
        return text.value.decode(errors="replace")

    def counter(self, operation):
        """What the calls of an operation ("copy", "copy_batch", ...) have done: calls, failures, pieces, bytes."""
        counter = _l.Counter()
        _l.checked(_l.lib.smem_bm_get_counter(self._handle, operation.encode(), ctypes.byref(counter)))
        return {name: getattr(counter, name) for name, _ in counter._fields_}

    @property
    def has_one_address_space(self):
        return _l.lib.smem_bm_has_one_address_space(self._handle)
