"""SHM: memory of the same size on each rank, and control operations."""

import ctypes
import enum

from memfabric_hybrid import _library as _l

_ExitHandler = ctypes.CFUNCTYPE(None, ctypes.c_int)
_exit_handlers = []  # each one that was registered: its thread may start late


class ShmDataOpType(enum.IntFlag):
    MTE = 1
    SDMA = 2
    RDMA = 4
    ROCE = 4


class ShmConfig(_l.ShmConfigStruct):
    def __init__(self):
        super().__init__()
        _l.lib.smem_shm_config_init(ctypes.byref(self))


def initialize(store_url, world_size, rank_id, device_id, config):
    return _l.lib.smem_shm_init(store_url.encode(), world_size, rank_id, device_id & 0xFFFF, ctypes.byref(config))


def uninitialize(flags=0):
    _l.lib.smem_shm_uninit(flags)


def create(id, rank_size, rank_id, local_mem_size, data_op_type=ShmDataOpType.MTE, flags=0):  # pylint: disable=redefined-builtin
    """Collective."""
    return ShareMemory(*handle_of(id, rank_size, rank_id, local_mem_size, data_op_type, flags))


def handle_of(id, rank_size, rank_id, local_mem_size, data_op_type, flags):  # pylint: disable=redefined-builtin
    """The handle and the address, for create() of this module, and of mf_smem.shm."""
    gva = ctypes.c_void_p()
    handle = _l.lib.smem_shm_create(id, rank_size, rank_id, local_mem_size, data_op_type, flags, ctypes.byref(gva))
    return handle, gva.value


class ShareMemory:
    """Memory of all ranks: rank r's is at gva + r * local_mem_size. barrier, destroy and topology_can_reach return 0 or a
    code; the other methods raise RuntimeError."""

    def __init__(self, handle, gva):
        _l.checked(0 if handle else None)
        self._handle, self._gva = handle, gva

    def destroy(self, flags=0):
        handle, self._handle = self._handle, None
        return _l.lib.smem_shm_destroy(handle, flags)

    def __del__(self):
        if getattr(self, "_handle", None):
            _l.lib.smem_shm_destroy(self._handle, 0)

    @property
    def local_rank(self):
        return _l.lib.smem_shm_get_global_rank(self._handle)

    @property
    def rank_size(self):
        return _l.lib.smem_shm_get_global_rank_size(self._handle)

    @property
    def gva(self):
        return self._gva

    def set_context(self, context):
        _l.checked(_l.lib.smem_shm_set_extra_context(self._handle, context, len(context)))
        return 0

    def barrier(self):
        return _l.lib.smem_shm_control_barrier(self._handle)

    def all_gather(self, local_data):
        """The bytes of all ranks, one after the other."""
        result = ctypes.create_string_buffer(len(local_data) * self.rank_size)
        _l.checked(_l.lib.smem_shm_control_allgather(self._handle, local_data, len(local_data), result, len(result)))
        return result.raw

    def topology_can_reach(self, remote_rank, reach_info=None):
        """0, or a code. reach_info: a ctypes.c_uint32 that gets the mask of ShmDataOpType; or use reach_info()."""
        mask = reach_info if isinstance(reach_info, ctypes.c_uint32) else ctypes.c_uint32()
        return _l.lib.smem_shm_topology_can_reach(self._handle, remote_rank, ctypes.byref(mask))

    def query_support_data_operation(self):
        return _l.lib.smem_shm_query_support_data_operation()

    # ---- additions: the C API's other functions

    def reach_info(self, remote_rank):
        mask = ctypes.c_uint32()
        _l.checked(_l.lib.smem_shm_topology_can_reach(self._handle, remote_rank, ctypes.byref(mask)))
        return ShmDataOpType(mask.value)

    def context(self, rank):
        """The bytes of a rank's set_context."""
        text, size = ctypes.create_string_buffer(65536), ctypes.c_uint32(65536)
        _l.checked(_l.lib.smem_shm_get_extra_context(self._handle, rank, text, ctypes.byref(size)))
        return text.raw[:size.value]

    def subgroup_barrier(self, key, rank_size, rank_id):
        _l.checked(_l.lib.smem_shm_subgroup_barrier(self._handle, key.encode(), rank_size, rank_id))

    def subgroup_all_gather(self, key, rank_size, rank_id, local_data):
        result = ctypes.create_string_buffer(len(local_data) * rank_size)
        _l.checked(_l.lib.smem_shm_subgroup_allgather(self._handle, key.encode(), rank_size, rank_id, local_data,
                                                      len(local_data), result, len(result)))
        return result.raw

    def atomic_alloc_value(self, limit=1024):
        value = ctypes.c_uint32()
        _l.checked(_l.lib.smem_shm_atomic_alloc_value(self._handle, limit, ctypes.byref(value)))
        return value.value

    def atomic_release_value(self, value):
        _l.checked(_l.lib.smem_shm_atomic_release_value(self._handle, value))

    def register_exit(self, handler):
        """handler(status) runs on a thread of its own when any rank calls global_exit."""
        _exit_handlers.append(_ExitHandler(handler))
        _l.checked(_l.lib.smem_shm_register_exit(self._handle, _exit_handlers[-1]))

    def global_exit(self, status):
        _l.lib.smem_shm_global_exit(self._handle, status)

    def ptr(self, rank):
        """The address of a rank's memory for loads and stores, or for kernels; None if it can't be mapped."""
        return _l.lib.smem_shm_ptr(self._handle, rank)

    def copy(self, src_ptr, dst_ptr, size):
        _l.checked(_l.lib.smem_shm_copy(self._handle, dst_ptr, src_ptr, size))
