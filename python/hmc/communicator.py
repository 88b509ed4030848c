"""Communicator, ConnBuffer and CtrlLink: the classes beneath a Session, with the calls of HMC's older Python package.

>>> import hmc
>>> buffer = hmc.ConnBuffer(0, 4096, hmc.MemoryType.CPU)
>>> buffer.writeFromCpu(b"bytes", 5, 8) == hmc.status_t.SUCCESS
True
>>> communicator = hmc.Communicator(buffer)
>>> communicator.checkConn("10.0.0.1", 2025, hmc.ConnType.UCX).name
'NOT_FOUND'

Calls return a status_t, as in <hmc.h>; include/hmc/communicator.hpp describes them. New programs use Session.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from hmc import _core
from hmc._core import ConnBuffer, ConnType, CtrlTransport, MemoryType, status_t
from hmc.errors import Error

__all__ = ["Communicator", "ConnBuffer", "CtrlLink", "HMCError", "HMCStatusError"]


class HMCError(Error):
    """The base of a Session's exceptions."""


class HMCStatusError(HMCError):
    """A call has failed: ``status`` is the reason. HMC_LOG=info logs the details."""

    status: status_t

    def __init__(self, st, msg="") -> None:
        status = status_t(st)
        super().__init__(f"{msg} (status={status.name})", status.name.lower(), msg.partition(":")[0], message=msg)
        self.status = status

    def __reduce__(self):
        return type(self), (self.status, self.message)


@dataclass
class CtrlLink:
    """The control address of a peer: ip and port (TCP), or the path of a Unix socket (UDS)."""

    transport: CtrlTransport = CtrlTransport.TCP
    ip: str = ""
    port: int = 0
    uds_path: str = ""


def _status(function, *arguments):
    try:
        function(*arguments)
    except HMCStatusError as error:
        return error.status
    return status_t.SUCCESS


def _address(memory):
    """The address in an int or in a PyCapsule of any name; None is the null pointer."""
    if memory is None or isinstance(memory, int):
        return memory or 0
    if type(memory).__name__ != "PyCapsule":
        raise TypeError(f"an address (int or PyCapsule) is needed, not a {type(memory).__name__}")
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(memory, name(memory))


def _address_of(link):
    """(ip, port, path) of a CtrlLink: the path is "" for TCP. None if a part is missing."""
    if link.transport == CtrlTransport.UDS:
        return ("", 0, link.uds_path) if link.uds_path else None
    return (link.ip, link.port, "") if link.ip and link.port else None


class Communicator:
    """Transfers between a ConnBuffer and those of peers. ``num_chs``: queue pairs per peer for large transfers by RDMA.

    Peers have the names that Session's calls use. initServer, connectTo, disConnect, checkConn, sendDataTo and recvDataFrom
    also have the first version's form, without ids and ports. A PyCapsule or an int is an address.
    """

    def __init__(self, buffer: ConnBuffer, num_chs: int = 1) -> None:
        self._connections = _core.Communicator(getattr(buffer, "core", buffer), num_chs)

    # ---- one-sided

    def put(self, ip, port, local_off, remote_off, size, connType=ConnType.RDMA):
        """Write to the peer's buffer."""
        return _status(self._connections.put, ip, port, local_off, remote_off, size, ConnType(connType))

    def get(self, ip, port, local_off, remote_off, size, connType=ConnType.RDMA):
        """Read from the peer's buffer."""
        return _status(self._connections.get, ip, port, local_off, remote_off, size, ConnType(connType))

    def putNB(self, ip, port, local_off, remote_off, size, connType=ConnType.RDMA):
        """Start a put; returns its status, and an id for wait()."""
        return self._start(self._connections.put_nb, ip, port, local_off, remote_off, size, ConnType(connType))

    def getNB(self, ip, port, local_off, remote_off, size, connType=ConnType.RDMA):
        """Start a get; returns its status, and an id for wait()."""
        return self._start(self._connections.get_nb, ip, port, local_off, remote_off, size, ConnType(connType))

    @staticmethod
    def _start(function, *arguments):
        try:
            return status_t.SUCCESS, function(*arguments)
        except HMCStatusError as error:
            return error.status, 0

    def wait(self, wr_id=None, *, wr_ids=None):
        """Complete a transfer, or all transfers of a list of ids."""
        ids = wr_id if wr_ids is None else wr_ids
        return _status(self._connections.wait, [ids] if isinstance(ids, int) else list(ids))

    def writeTo(self, ip, ptr_bias, size, connType=ConnType.RDMA):
        """Write to the same offset of the peer's buffer."""
        return _status(self._connections.write_to, ip, ptr_bias, size, ConnType(connType))

    def readFrom(self, ip, ptr_bias, size, connType=ConnType.RDMA):
        """Read from the same offset of the peer's buffer."""
        return _status(self._connections.read_from, ip, ptr_bias, size, ConnType(connType))

    # ---- paired

    def send(self, ip, ptr_bias, size, connType=ConnType.RDMA):
        """Send a part of the buffer to the peer, which calls recv."""
        return _status(self._connections.send, ip, ptr_bias, size, ConnType(connType))

    def recv(self, ip, ptr_bias, size, connType=ConnType.RDMA):
        """Receive into a part of the buffer."""
        return _status(self._connections.receive, ip, ptr_bias, size, ConnType(connType))

    def sendDataTo(self, ip, *arguments, **keywords):
        """Send memory to the peer, which calls recvDataFrom: ip, [port,] send_buf, buf_size, buf_type, connType."""
        port, memory, size, kind, conn = _data_arguments("sendDataTo", ["send_buf", "buf_size", "buf_type"], arguments, keywords)
        return _status(self._connections.send_data, ip, port, _address(memory), size, MemoryType(kind), ConnType(conn))

    def recvDataFrom(self, ip, *arguments, **keywords):
        """Receive into memory: ip, [port,] recv_buf, buf_size, buf_type, flag, connType. ``flag`` is ignored, as it was."""
        port, memory, size, kind, _, conn = _data_arguments("recvDataFrom", ["recv_buf", "buf_size", "buf_type", "flag"], arguments,
                                                            keywords)
        return _status(self._connections.receive_data, ip, port, _address(memory), size, MemoryType(kind), ConnType(conn))

    # ---- control messages

    def ctrlSend(self, peer, tag):
        """Send a number (64 bits, unsigned) to the peer with this id."""
        return _status(self._connections.ctrl_send, peer, tag)

    def ctrlRecv(self, peer):
        """Receive a number; returns the status and the number."""
        try:
            return status_t.SUCCESS, self._connections.ctrl_recv(peer)
        except HMCStatusError as error:
            return error.status, 0

    def initCtrlServer(self, bind_ip, tcp_port, uds_path=""):
        """Accept control connections of peers."""
        return _status(self._connections.listen_control, bind_ip, tcp_port, uds_path)

    def closeCtrl(self):
        """Close all control connections, and accept no more."""
        return _status(self._connections.close_control)

    def connectCtrl(self, peer_id, self_id, link):
        """Connect to a peer's control server."""
        address = _address_of(link)
        if address is None:
            return status_t.INVALID_CONFIG
        return _status(self._connections.connect_control, peer_id, self_id, *address)

    def closeCtrlPeer(self, peer_id):
        """Close the control connection to a peer."""
        return _status(self._connections.close_control_peer, peer_id)

    @staticmethod
    def udsPathFor(dir, peer_id):  # pylint: disable=redefined-builtin
        """The path of a peer's Unix socket in a folder."""
        return _core.control_path(str(dir), peer_id)

    # ---- connections

    def initServer(self, bind_ip=None, data_port=None, ctrl_tcp_port=None, ctrl_uds_path=None, serverType=ConnType.RDMA, *,
                   ip=None, port=None, connType=None):
        """Accept peers: bind_ip, data_port, ctrl_tcp_port, ctrl_uds_path, serverType; or ip, port, connType."""
        bind_ip, data_port = (bind_ip if ip is None else ip), (data_port if port is None else port)
        if ctrl_uds_path is None:
            third = connType if ctrl_tcp_port is None else ctrl_tcp_port
            return _status(self._connections.listen, bind_ip, data_port, ConnType(serverType if third is None else third))
        return _status(self._connections.listen_with_control, bind_ip, data_port, ctrl_tcp_port, ctrl_uds_path, ConnType(serverType))

    def closeServer(self):
        """Accept no more peers. Connected ones stay."""
        return _status(self._connections.close_server)

    def connectTo(self, *arguments, **keywords):
        """Connect to a server: peer_id, self_id, peer_ip, data_port, ctrl_link, connType; or ip, port, connType."""
        if "ip" in keywords or (arguments and isinstance(arguments[0], str)):
            return self._connect_to_ip(*arguments, **keywords)
        return self._connect_to_id(*arguments, **keywords)

    def _connect_to_ip(self, ip, port, connType=ConnType.RDMA):
        return _status(self._connections.connect, ip, port, ConnType(connType))

    def _connect_to_id(self, peer_id, self_id, peer_ip, data_port, ctrl_link, connType=ConnType.RDMA):
        address = _address_of(ctrl_link)
        if address is None:
            return status_t.INVALID_CONFIG
        return _status(self._connections.connect_to, peer_id, self_id, peer_ip, data_port, *address, ConnType(connType))

    def disConnect(self, ip, port=None, connType=ConnType.RDMA):
        """End the connection to a peer: ip, port, connType; or ip, connType. No effect if there is none."""
        port, conn = port_and_conn(port, connType)
        return _status(self._connections.disconnect, ip, port, conn)

    def checkConn(self, ip, port=None, connType=ConnType.RDMA):
        """SUCCESS if the peer is connected and hasn't died: ip, port, connType; or ip, connType."""
        port, conn = port_and_conn(port, connType)
        return self._connections.status_of(ip, port, conn)


def port_and_conn(port, conn):
    """Of (port, conn), or of the first version's (conn)."""
    return (None, port) if isinstance(port, ConnType) else (port, ConnType(conn))


def _data_arguments(name, names, arguments, keywords):
    """[port, *names, connType]; without a port it is None. The first version has no port."""
    arguments = [*arguments]
    count = len(names)
    # One argument more than `names`: a port, or a ConnType.
    has_port = "port" in keywords or len(arguments) > count + 1 or (
        len(arguments) == count + 1 - len(keywords.keys() & set(names)) and not isinstance(arguments[-1], ConnType))
    positions = (["port"] if has_port and "port" not in keywords else []) + [*names, "connType"]
    if len(arguments) > len(positions):
        raise TypeError(f"{name}: {len(arguments) - len(positions)} arguments too many")
    values = dict(keywords)
    for key, value in zip(positions, arguments):
        if key in values:
            raise TypeError(f"{name}: {key} is given twice")
        values[key] = value
    wrong = values.keys() - {"port", *names, "connType"}
    missing = [each for each in names if each not in values]
    if wrong or missing:
        raise TypeError(f"{name}: {f'unknown arguments {sorted(wrong)}' if wrong else f'{missing} missing'}")
    return [values.get("port"), *(values[each] for each in names), values.get("connType", ConnType.RDMA)]
