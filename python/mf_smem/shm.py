"""SHM in the form of the first release: methods raise RuntimeError."""

from memfabric_hybrid import _library as _l
from memfabric_hybrid import shm as _shm
from memfabric_hybrid.shm import ShmConfig, ShmDataOpType, initialize, uninitialize

__all__ = ["ShareMemory", "ShmConfig", "ShmDataOpType", "create", "initialize", "uninitialize"]


def create(id, rank_size, rank_id, local_mem_size, data_op_type=ShmDataOpType.MTE, flags=0):  # pylint: disable=redefined-builtin
    """Collective."""
    return ShareMemory(*_shm.handle_of(id, rank_size, rank_id, local_mem_size, data_op_type, flags))


class ShareMemory(_shm.ShareMemory):
    def barrier(self):
        _l.checked(super().barrier())

    def destroy(self, flags=0):
        _l.checked(super().destroy(flags))
