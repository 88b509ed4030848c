"""BM in the form of the first release: one part per member, and methods that raise RuntimeError."""

import ctypes

from memfabric_hybrid import _library as _l
from memfabric_hybrid import bm as _bm
from memfabric_hybrid.bm import ASYNC_COPY_FLAG, BmCopyType, BmDataOpType, bm_rank_id, initialize, uninitialize

__all__ = ["ASYNC_COPY_FLAG", "BigMemory", "BmConfig", "BmCopyType", "BmDataOpType", "CopyData2DParams", "bm_rank_id", "create",
           "initialize", "uninitialize"]


class BmConfig(_bm.BmConfig):
    @property
    def hcom_url(self):
        """As set_nic."""
        return _l.BmConfigStruct.hcom_url.__get__(self).decode()

    @hcom_url.setter
    def hcom_url(self, url):
        _l.BmConfigStruct.hcom_url.__set__(self, url.encode())


class CopyData2DParams:
    """Addresses, pitches and sizes are numbers of bytes; height is a number of rows."""

    def __init__(self):
        self.src = self.spitch = self.dest = self.dpitch = self.width = self.height = 0


def create(id, local_dram_size, local_hbm_size, data_op_type=BmDataOpType.SDMA, flags=0):  # pylint: disable=redefined-builtin
    return BigMemory(_bm.handle_of(id, local_dram_size, local_hbm_size, data_op_type, flags))


class BigMemory(_bm.BigMemory):
    """The part is the device part, or the host part if the pool has no device parts."""

    def join(self, flags=0):
        """The address of this member's part."""
        address = ctypes.c_void_p()
        _l.checked(_l.lib.smem_bm_join_v1(self._handle, flags, ctypes.byref(address)))
        return address.value

    def leave(self, flags=0):
        _l.checked(super().leave(flags))

    def local_mem_size(self, mem_type=None):
        return _l.lib.smem_bm_get_local_mem_size(self._handle) if mem_type is None else super().local_mem_size(mem_type)

    def peer_rank_ptr(self, peer_rank, mem_type=None):
        if mem_type is None:
            address = _l.lib.smem_bm_ptr(self._handle, peer_rank)
        else:
            address = super().peer_rank_ptr(peer_rank, mem_type)
        _l.checked(0 if address else None)
        return address

    def copy_data(self, src_ptr, dst_ptr, size, type, flags=0, stream=0):  # pylint: disable=redefined-builtin
        _l.checked(super().copy_data(src_ptr, dst_ptr, size, type, flags, stream))

    def copy_data_2d(self, params, type, flags=0):  # pylint: disable=redefined-builtin,arguments-differ
        """params: CopyData2DParams."""
        super().copy_data_2d(params.src, params.spitch, params.dest, params.dpitch, params.width, params.height, type, flags)
