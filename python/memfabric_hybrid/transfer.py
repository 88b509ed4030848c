"""TRANS: peers read and write each other's registered memory, by name."""

import ctypes
import enum
import os
import socket

from memfabric_hybrid import _library as _l


class TransferOpcode(enum.IntEnum):
    Read = 0
    Write = 1


class TransDataOpType(enum.IntFlag):
    """Hints, as bm.BmDataOpType."""
    SDMA = 1
    HOST_RDMA = 2
    HOST_TCP = 4
    DEVICE_RDMA = 8
    HOST_URMA = 16
    HOST_SHM = 32
    DEVICE_URMA = 64
    DEVICE_UBOE = 128


_ROLES = {"Prefill": 1, "Decode": 2}  # sender, receiver
_INVALID = -1  # of arguments that don't reach the library
_peer_down = []  # each callback that was set: its thread may be in it


class TransferEngine:
    """A peer with a name "ip:port". Methods return 0, or a code: get_last_err_msg() has the reason. flags: 2, a hint."""

    TransferOpcode = TransferOpcode
    TransDataOpType = TransDataOpType

    def __init__(self):
        self._handle = None
        self._port = None

    def initialize(self, store_url, session_id, role, device_id, data_op_type=TransDataOpType.SDMA,
                   store_server_role=None, nic=""):
        """role: "Prefill" or "Decode". Returns when peers can find this one. store_server_role: the role that serves the
        store; None: another process does, or has called create_config_store(). nic: as BmConfig.set_nic."""
        if role not in _ROLES:
            return _INVALID
        level = os.environ.get("ASCEND_MF_LOG_LEVEL", "")
        if level in ("0", "1", "2", "3"):
            _l.lib.smem_set_log_level(int(level))
        config = _l.TransConfig()
        _l.lib.smem_trans_config_init(ctypes.byref(config))
        config.role, config.device_id, config.data_op_type = _ROLES[role], device_id & 0xFFFF, data_op_type
        config.start_store, config.nic = role == store_server_role, nic.encode()
        code = _l.lib.smem_trans_init(ctypes.byref(config))
        if code != 0:
            return code
        self._handle = _l.lib.smem_trans_create(store_url.encode(), session_id.encode(), ctypes.byref(config))
        return 0 if self._handle else -1

    def destroy(self):
        handle, self._handle = self._handle, None
        if handle:
            _l.lib.smem_trans_destroy(handle, 0)
        if self._port is not None:
            self._port.close()
            self._port = None

    def unInitialize(self):  # pylint: disable=invalid-name
        _l.lib.smem_trans_uninit(0)
        self._handle = None

    def get_rpc_port(self):
        """A free TCP port, which this object keeps until destroy()."""
        if self._port is None:
            self._port = socket.socket()
            self._port.bind(("", 0))
        return self._port.getsockname()[1]

    def set_peer_down_callback(self, callback):
        """callback(name) is called when a peer ends, on a thread of the library. None: no more calls."""
        function = _l.PeerDown()
        if callback is not None:
            function = _l.PeerDown(lambda name, _data: callback(name.decode()))
            _peer_down.append(function)
        return _l.lib.smem_trans_set_peer_down_callback(self._handle, function, None)

    def register_memory(self, buffer_addr, capacity):
        return _l.lib.smem_trans_register_mem(self._handle, buffer_addr, capacity, 0)

    def batch_register_memory(self, buffer_addrs, capacities):
        if len(buffer_addrs) != len(capacities):
            return _INVALID
        return _l.lib.smem_trans_batch_register_mem(self._handle, _l.array_of(ctypes.c_void_p, buffer_addrs),
                                                    _l.array_of(ctypes.c_size_t, capacities), len(capacities), 0)

    def unregister_memory(self, buffer_addr):
        return _l.lib.smem_trans_deregister_mem(self._handle, buffer_addr)

    def transfer_sync_write(self, dest_session, buffer, peer_buffer, length, flags=0):
        return _l.lib.smem_trans_write(self._handle, buffer, dest_session.encode(), peer_buffer, length, flags)

    def transfer_sync_read(self, dest_session, buffer, peer_buffer, length, flags=0):
        return _l.lib.smem_trans_read(self._handle, buffer, dest_session.encode(), peer_buffer, length, flags)

    def transfer_async_write_submit(self, dest_session, buffer, peer_buffer, length, stream, flags=0):
        return _l.lib.smem_trans_write_submit(self._handle, buffer, dest_session.encode(), peer_buffer, length, stream, flags)

    def transfer_async_read_submit(self, dest_session, buffer, peer_buffer, length, stream, flags=0):
        return _l.lib.smem_trans_read_submit(self._handle, buffer, dest_session.encode(), peer_buffer, length, stream, flags)

    def batch_transfer_sync_write(self, dest_session, buffers, peer_buffers, lengths, flags=0):
        return self._batch(_l.lib.smem_trans_batch_write, dest_session, buffers, peer_buffers, lengths, flags)

    def batch_transfer_sync_read(self, dest_session, buffers, peer_buffers, lengths, flags=0):
        return self._batch(_l.lib.smem_trans_batch_read, dest_session, buffers, peer_buffers, lengths, flags)

    def batch_transfer_async_write_submit(self, dest_session, buffers, peer_buffers, lengths, stream, flags=0):
        return self._batch(_l.lib.smem_trans_batch_write_submit, dest_session, buffers, peer_buffers, lengths, stream, flags)

    def batch_transfer_async_read_submit(self, dest_session, buffers, peer_buffers, lengths, stream, flags=0):
        return self._batch(_l.lib.smem_trans_batch_read_submit, dest_session, buffers, peer_buffers, lengths, stream, flags)

    def _batch(self, transfer, dest_session, buffers, peer_buffers, lengths, *options):
        if not len(buffers) == len(peer_buffers) == len(lengths):
            return _INVALID
        return transfer(self._handle, _l.array_of(ctypes.c_void_p, buffers), dest_session.encode(),
                        _l.array_of(ctypes.c_void_p, peer_buffers), _l.array_of(ctypes.c_size_t, lengths), len(lengths),
                        *options)
