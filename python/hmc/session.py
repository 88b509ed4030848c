"""Session: transfers between buffers of processes that have no launcher. For programs of HMC's older Python package.

A server and a client, each in its own terminal (examples/python/two_terminals.py is the whole program):

    session = hmc.create_session(local_ip="10.0.0.1")                       # the server
    session.init_server(bind_ip="10.0.0.1", ucx_port=2025, rdma_port=2026, ctrl_tcp_port=5001, self_id=0)
    tag = session.ctrl_recv(1)                                              # the client's bytes are in session.buf

    session = hmc.create_session()                                          # the client
    session.connect(peer_id=0, self_id=1, peer_ip="10.0.0.1", data_port=2025, ctrl_tcp_port=5001, conn=hmc.ConnType.UCX)
    session.buffer_put_then_put("10.0.0.1", 2025, b"bytes", conn=hmc.ConnType.UCX)
    session.ctrl_send(0, 1)

On two machines, or as two users, both sides need the same HMC_SECRET.
"""

from __future__ import annotations

import os
import time

from hmc import _core
from hmc._core import ConnType, CtrlTransport, MemoryType, memory_supported, status_t
from hmc.communicator import Communicator, HMCError, HMCStatusError, port_and_conn

__all__ = [
    "ConnType", "CtrlTransport", "HMCError", "HMCStatusError", "IOBuffer", "MemoryType", "Session", "Status", "create_session",
    "memory_supported", "memory_type_from_torch_tensor", "status_t",
]

Status = status_t  #: the name in the first version


def memory_type_from_torch_tensor(t, *, default: MemoryType | None = None) -> MemoryType:
    """The MemoryType of a tensor's device; ``default`` (MemoryType.DEFAULT) for devices that HMC doesn't know."""
    import torch
    if not torch.is_tensor(t):
        raise TypeError(f"a torch.Tensor is needed, not a {type(t).__name__}")
    kind = t.device.type
    if kind == "cuda":
        kind = "hip" if torch.version.hip else "cuda"
    known = {"cpu": MemoryType.CPU, "cuda": MemoryType.NVIDIA_GPU, "hip": MemoryType.AMD_GPU,
             "mlu": MemoryType.CAMBRICON_MLU, "musa": MemoryType.MOORE_GPU, "npu": MemoryType.ASCEND_NPU}
    return known.get(kind, MemoryType.DEFAULT if default is None else MemoryType(default))


def _on_device(data):
    device = getattr(data, "device", None)
    return getattr(device, "type", "cpu") != "cpu" or hasattr(data, "__cuda_array_interface__")


def _without_gradient(data):
    return data.detach() if getattr(data, "requires_grad", False) else data


def _contiguous(data):
    """data, or a copy of its elements in C order if it isn't contiguous."""
    data = _without_gradient(data)
    if hasattr(data, "is_contiguous"):  # torch
        return data.contiguous()
    if hasattr(data, "flags") and hasattr(data, "copy"):  # numpy, cupy
        return data if data.flags.c_contiguous else data.copy("C")
    if isinstance(data, memoryview):
        return data if data.c_contiguous else data.tobytes()
    return data


def nbytes_of(data) -> int:
    """The size of an array or of an object with the buffer protocol."""
    if hasattr(data, "element_size"):  # torch before 2.0 has no nbytes
        return data.numel() * data.element_size()
    size = getattr(data, "nbytes", None)
    return memoryview(data).nbytes if size is None else size


class IOBuffer:
    """The memory of a Session that peers read and write.

    ``device`` of put and get_into: "cpu", "cuda" (an array or tensor in any device's memory), "ptr" (an address in a
    device's memory, with nbytes), or None, which looks at the array. Ranges are in bytes. A source that isn't contiguous is
    copied first. A destination must be contiguous and writable (ValueError).

    >>> import hmc
    >>> buffer = hmc.IOBuffer.create(0, 4096, hmc.MemoryType.CPU)
    >>> buffer.put(b"bytes", offset=8)
    5
    >>> buffer.buffer_copy_within(dst_offset=100, src_offset=8, nbytes=5)
    >>> bytes(buffer.buffer_get_cpu(nbytes=5, offset=100))
    b'bytes'
    """

    def __init__(self, core) -> None:
        self.core = core

    @classmethod
    def create(cls, device_id: int, buffer_size: int, mem_type: MemoryType = MemoryType.DEFAULT) -> IOBuffer:
        """Allocate zeroed memory on a device."""
        return cls(_core.ConnBuffer(device_id, buffer_size, MemoryType(mem_type)))

    @classmethod
    def borrow(cls, memory) -> IOBuffer:
        """A buffer over the memory of an array or tensor, without a copy. It keeps the array."""
        return cls(_core.ConnBuffer.borrow(memory))

    @property
    def ptr(self) -> int:
        """The address."""
        return self.core.ptr

    @property
    def size(self) -> int:
        return self.core.buffer_size

    @property
    def mem_type(self) -> MemoryType:
        return self.core.mem_type

    @property
    def device_id(self) -> int:
        return self.core.device_id

    def __repr__(self) -> str:
        return f"<hmc.IOBuffer: {self.size} bytes of {self.mem_type.name}>"

    def buffer_put_cpu(self, src, *, nbytes: int | None = None, offset: int = 0) -> int:
        """Copy host memory into the buffer; returns the number of bytes."""
        if _on_device(src):
            raise ValueError("buffer_put_cpu: src is in a device's memory; use buffer_put_cuda or put")
        return self.core.put_cpu(_contiguous(src), nbytes, offset)

    def buffer_get_cpu_into(self, dst, *, nbytes: int, offset: int = 0) -> None:
        """Copy from the buffer to host memory."""
        if _on_device(dst):
            raise ValueError("buffer_get_cpu_into: dst is in a device's memory; use buffer_get_cuda or get_into")
        self._get(self.core.get_cpu, dst, nbytes, offset)

    def buffer_get_cpu(self, *, nbytes: int, offset: int = 0) -> bytearray:
        """The buffer's bytes as a bytearray."""
        out = bytearray(nbytes)
        self.core.get_cpu(out, nbytes, offset)
        return out

    def buffer_put_gpu_ptr(self, src_ptr: int, *, nbytes: int, offset: int = 0) -> None:
        """Copy from an address in a device's memory."""
        self.core.put_gpu(int(src_ptr), nbytes, offset)

    def buffer_get_gpu_ptr(self, dst_ptr: int, *, nbytes: int, offset: int = 0) -> None:
        """Copy to an address in a device's memory."""
        self.core.get_gpu(int(dst_ptr), nbytes, offset)

    def buffer_put_cuda(self, t, *, nbytes: int | None = None, offset: int = 0) -> int:
        """Copy a tensor in a device's memory into the buffer; returns the number of bytes."""
        if not _on_device(t):
            raise ValueError("buffer_put_cuda: the tensor is in host memory; use buffer_put_cpu or put")
        return self.core.put_gpu(_contiguous(t), nbytes, offset)

    def buffer_get_cuda(self, t, *, nbytes: int | None = None, offset: int = 0) -> int:
        """Copy from the buffer into a tensor in a device's memory; returns the number of bytes."""
        if not _on_device(t):
            raise ValueError("buffer_get_cuda: the tensor is in host memory; use buffer_get_cpu_into or get_into")
        return self._get(self.core.get_gpu, t, nbytes, offset)

    def buffer_copy_within(self, *, dst_offset: int, src_offset: int, nbytes: int) -> None:
        """Copy within the buffer; the ranges may overlap."""
        self.core.copy_within(dst_offset, src_offset, nbytes)

    def put(self, data, *, nbytes: int | None = None, offset: int = 0, device: str | None = None) -> int:
        """Copy an array, or the first nbytes of it, into the buffer; returns the number of bytes."""
        if _is_pointer(data, device, nbytes):
            return self.core.put_gpu(data, nbytes, offset)
        on_device = device == "cuda" or (device is None and _on_device(data))
        return (self.buffer_put_cuda if on_device else self.buffer_put_cpu)(data, nbytes=nbytes, offset=offset)

    def get_into(self, dst, *, nbytes: int, offset: int = 0, device: str | None = None) -> None:
        """Copy nbytes of the buffer into an array."""
        if _is_pointer(dst, device, nbytes):
            self.core.get_gpu(dst, nbytes, offset)
            return
        on_device = device == "cuda" or (device is None and _on_device(dst))
        (self.buffer_get_cuda if on_device else self.buffer_get_cpu_into)(dst, nbytes=nbytes, offset=offset)

    @staticmethod
    def _get(copy, destination, nbytes, offset):
        try:
            return copy(_without_gradient(destination), nbytes, offset)
        except BufferError as error:
            raise ValueError(str(error)) from None


def _is_pointer(data, device, nbytes):
    if device not in (None, "cpu", "cuda", "ptr"):
        raise ValueError(f"device is {device!r}, not 'cpu', 'cuda', 'ptr' or None")
    if device != "ptr":
        return False
    if not isinstance(data, int):
        raise TypeError(f"device='ptr' needs an address, not a {type(data).__name__}")
    if nbytes is None:
        raise ValueError("device='ptr' needs nbytes")
    return True


def _port(port):
    if not 0 < int(port) < 65536:
        raise ValueError(f"{port} isn't a port")
    return int(port)


def _port_and_conn(port, conn):
    port, conn = port_and_conn(port, conn)
    return None if port is None else _port(port), conn


class Session:
    """Connections between an IOBuffer, ``buf``, and those of peers in other processes.

    A call names a peer by the IP and the port that connect() used; a client, by the address of its own server. ``conn``
    selects the port's kind and the transport between nodes; on one node the bytes go through shared memory. Control
    messages name a peer by its id, which is unique among the processes that are connected.

    init_server, connect, disconnect and check_conn also have the first version's form, without ids and control
    messages: init_server(ip, port, conn), connect(ip, port, conn), disconnect(ip, conn). For such peers there are put,
    get, get_into, put_torch_cuda and get_torch_cuda, which name a peer by its IP alone. On a server they wait until the peer
    has connected.

    ``comm`` is the Communicator, whose calls return a status.

    Failures raise HMCStatusError. No call waits longer than HMC_TIMEOUT_S (300) seconds. Threads: any.
    """

    def __init__(self, buf: IOBuffer, num_chs: int = 1, *, local_ip: str = "", ctrl_uds_dir: str = "/tmp") -> None:
        """num_chs: queue pairs per peer for large transfers by RDMA."""
        self.buf = buf
        self.local_ip = local_ip.strip()
        self.ctrl_uds_dir = str(ctrl_uds_dir)
        self.id = None
        self.comm = Communicator(buf.core, num_chs)
        self._connections = self.comm._connections  # pylint: disable=protected-access
        self._is_server = False

    def set_local_ip(self, ip: str) -> None:
        """The address of this process: a control connection to the same address is a Unix socket."""
        self.local_ip = ip.strip()

    def set_ctrl_uds_dir(self, d: str) -> None:
        """The folder of the Unix sockets."""
        self.ctrl_uds_dir = str(d)

    # ---- connections

    def init_server(self, ip: str | None = None, port: int | None = None, conn: ConnType = ConnType.RDMA, *,
                    bind_ip: str | None = None, ucx_port: int | None = None, rdma_port: int | None = None,
                    ctrl_tcp_port: int | None = None, self_id: int | None = None, ctrl_uds_dir: str | None = None) -> None:
        """Accept peers: at both ports and at the control port, or, with ip and port, at one port for ``conn``."""
        if ip is not None:
            self._connections.listen(ip.strip(), _port(port), ConnType(conn))
            self.local_ip = ip.strip()
        else:
            if None in (bind_ip, ucx_port, rdma_port, ctrl_tcp_port, self_id):
                raise TypeError("init_server needs bind_ip, ucx_port, rdma_port, ctrl_tcp_port and self_id; or ip and port")
            if ctrl_uds_dir is not None:
                self.ctrl_uds_dir = str(ctrl_uds_dir)
            self.id = int(self_id)
            self._connections.listen_all(bind_ip.strip(), _port(ucx_port), _port(rdma_port), _port(ctrl_tcp_port),
                                  _core.control_path(self.ctrl_uds_dir, self.id))
            self.local_ip = bind_ip.strip()
        self._is_server = True

    def close_server(self) -> None:
        """Accept no more peers. Connected ones stay."""
        self._connections.close_server()
        self._is_server = False

    def connect(self, ip: str | None = None, port: int | None = None, conn: ConnType = ConnType.RDMA, *,
                peer_id: int | None = None, self_id: int | None = None, peer_ip: str | None = None,
                data_port: int | None = None, ctrl_tcp_port: int | None = None, uds_dir: str | None = None) -> None:
        """Connect to a server. No effect if it is connected.

        The control connection is a Unix socket in uds_dir if peer_ip is this process's own address (local_ip), else TCP;
        CTRL_TRANSPORT=tcp or uds forces one.
        """
        conn = ConnType(conn)
        if ip is not None:
            self._connections.connect(ip.strip(), _port(port), conn)
            return
        if None in (peer_id, self_id, peer_ip, data_port, ctrl_tcp_port):
            raise TypeError("connect needs peer_id, self_id, peer_ip, data_port and ctrl_tcp_port; or ip and port")
        peer_ip, data_port = peer_ip.strip(), _port(data_port)
        if self.check_conn(peer_ip, data_port, conn):
            return
        path = ""
        if self._control_transport(peer_ip) == CtrlTransport.UDS:
            path = _core.control_path(self.ctrl_uds_dir if uds_dir is None else str(uds_dir), peer_id)
        self._connections.connect_to(peer_id, self_id, peer_ip, data_port, peer_ip, _port(ctrl_tcp_port), path, conn)

    def _control_transport(self, peer_ip):
        forced = os.environ.get("CTRL_TRANSPORT", "").strip().lower()
        is_near = forced == "uds" if forced else self.local_ip not in ("", "0.0.0.0") and self.local_ip == peer_ip
        return CtrlTransport.UDS if is_near else CtrlTransport.TCP

    def disconnect(self, ip: str, port: int | ConnType | None = None, conn: ConnType = ConnType.RDMA) -> None:
        """End the connection to a peer: disconnect(ip, port, conn), or disconnect(ip, conn). No effect if there is none."""
        port, conn = _port_and_conn(port, conn)
        self._connections.disconnect(ip, port, conn)

    def check_conn(self, ip: str, port: int | ConnType | None = None, conn: ConnType = ConnType.RDMA) -> bool:
        """True if the peer is connected and hasn't died: check_conn(ip, port, conn), or check_conn(ip, conn)."""
        port, conn = _port_and_conn(port, conn)
        return self._connections.status_of(ip, port, conn) == status_t.SUCCESS

    # ---- one-sided: bytes between the two sides' buffers

    def put_remote(self, ip: str, port: int, local_off: int, remote_off: int, nbytes: int,
                   conn: ConnType = ConnType.RDMA) -> None:
        """Write to the peer's buffer. At return the peer sees the bytes."""
        self._connections.put(ip, port, local_off, remote_off, nbytes, ConnType(conn))

    def get_remote(self, ip: str, port: int, local_off: int, remote_off: int, nbytes: int,
                   conn: ConnType = ConnType.RDMA) -> None:
        """Read from the peer's buffer."""
        self._connections.get(ip, port, local_off, remote_off, nbytes, ConnType(conn))

    def put_nb(self, ip: str, port: int, local_off: int, remote_off: int, nbytes: int, conn: ConnType = ConnType.RDMA) -> int:
        """Start a put_remote; returns an id for wait()."""
        return self._connections.put_nb(ip, port, local_off, remote_off, nbytes, ConnType(conn))

    def get_nb(self, ip: str, port: int, local_off: int, remote_off: int, nbytes: int, conn: ConnType = ConnType.RDMA) -> int:
        """Start a get_remote; returns an id for wait()."""
        return self._connections.get_nb(ip, port, local_off, remote_off, nbytes, ConnType(conn))

    def wait(self, wr_id: int | list[int]) -> None:
        """Complete a transfer, or all transfers of a list of ids."""
        self._connections.wait([wr_id] if isinstance(wr_id, int) else list(wr_id))

    def buffer_put_then_put(self, ip: str, port: int, data, *, local_off: int = 0, remote_off: int = 0,
                            conn: ConnType = ConnType.RDMA, nbytes: int | None = None, device: str | None = None) -> int:
        """buf.put, then put_remote; returns the number of bytes."""
        n = self.buf.put(data, nbytes=nbytes, offset=local_off, device=device)
        self.put_remote(ip, port, local_off, remote_off, n, conn)
        return n

    def get_then_buffer_get_into(self, ip: str, port: int, dst, *, local_off: int = 0, remote_off: int = 0,
                                 nbytes: int | None = None, conn: ConnType = ConnType.RDMA, device: str | None = None) -> int:
        """get_remote, then buf.get_into; returns the number of bytes (by default the array's size)."""
        n = nbytes_of(dst) if nbytes is None else nbytes
        self.get_remote(ip, port, local_off, remote_off, n, conn)
        self.buf.get_into(dst, nbytes=n, offset=local_off, device=device)
        return n

    # ---- messages

    def ctrl_send(self, peer: int, tag: int) -> None:
        """Send a number (64 bits, unsigned) to the peer with this id."""
        self._connections.ctrl_send(peer, tag)

    def ctrl_recv(self, peer: int) -> int:
        """Receive a number. A server waits until the peer has connected."""
        return self._connections.ctrl_recv(peer)

    def send_data_to(self, ip: str, port: int, send_buf_ptr: int, buf_size: int, buf_type: MemoryType,
                     conn: ConnType = ConnType.RDMA) -> None:
        """Send memory at an address through the receiver's buffer, which it overwrites. The peer calls recv_data_from."""
        self._connections.send_data(ip, port, send_buf_ptr, buf_size, MemoryType(buf_type), ConnType(conn))

    def recv_data_from(self, ip: str, port: int, recv_buf_ptr: int, buf_size: int, buf_type: MemoryType, flag_ptr: int = 0,
                       conn: ConnType = ConnType.RDMA) -> int:
        """Receive into memory at an address; returns the message's length.

        flag_ptr: the address of a 64-bit integer that also receives the length; 0: none.
        """
        received = self._connections.receive_data(ip, port, recv_buf_ptr, buf_size, MemoryType(buf_type), ConnType(conn))
        if flag_ptr:
            import ctypes
            ctypes.c_size_t.from_address(flag_ptr).value = received
        return received

    # ---- the first version: the same offset, bias, on both sides

    def put(self, ip: str, data, bias: int = 0, conn: ConnType = ConnType.UCX, size: int | None = None,
            device: str | None = None) -> None:
        """Write an array to the peer's buffer at bias."""
        n = self.buf.put(data, nbytes=size, offset=bias, device=device)
        self.write_to(ip, bias, n, conn)

    def get(self, ip: str, size: int, bias: int = 0, conn: ConnType = ConnType.UCX) -> bytes:
        """Read size bytes of the peer's buffer at bias."""
        self.read_from(ip, bias, size, conn)
        return bytes(self.buf.buffer_get_cpu(nbytes=size, offset=bias))

    def get_into(self, ip: str, dest, bias: int = 0, conn: ConnType = ConnType.UCX, size: int | None = None,
                 device: str | None = None) -> None:
        """Read the peer's buffer at bias into an array."""
        n = nbytes_of(dest) if size is None else size
        self.read_from(ip, bias, n, conn)
        self.buf.get_into(dest, nbytes=n, offset=bias, device=device)

    def put_torch_cuda(self, ip: str, tensor, bias: int = 0, conn: ConnType = ConnType.RDMA, size: int | None = None) -> None:
        """put() of a tensor in a device's memory."""
        self.put(ip, tensor, bias, conn, size, "cuda")

    def get_torch_cuda(self, ip: str, tensor, bias: int = 0, conn: ConnType = ConnType.RDMA, size: int | None = None) -> None:
        """get_into() a tensor in a device's memory."""
        self.get_into(ip, tensor, bias, conn, size, "cuda")

    def write_to(self, ip: str, ptr_bias: int, size: int, conn: ConnType = ConnType.RDMA) -> None:
        """Write this side's buffer to the peer's, at the same offset."""
        self._await_peer(ip, conn)
        self._connections.write_to(ip, ptr_bias, size, ConnType(conn))

    def read_from(self, ip: str, ptr_bias: int, size: int, conn: ConnType = ConnType.RDMA) -> None:
        """Read the peer's buffer into this side's, at the same offset."""
        self._await_peer(ip, conn)
        self._connections.read_from(ip, ptr_bias, size, ConnType(conn))

    def _await_peer(self, ip, conn):
        """On a server: waits for the connection of a peer that calls name before it has connected."""
        end = time.monotonic() + float(os.environ.get("HMC_TIMEOUT_S") or 300)
        while self._is_server and self._connections.status_of(ip, None, ConnType(conn)) == status_t.NOT_FOUND:
            if time.monotonic() > end:
                raise HMCStatusError(status_t.TIMEOUT, f"{ip}: no peer with this IP has connected, or several have")
            time.sleep(0.002)


def create_session(*, device_id: int = 0, buffer_size: int = 128 * 1024 * 1024, mem_type: MemoryType = MemoryType.CPU,
                   num_chs: int = 1, local_ip: str = "") -> Session:
    """A Session with a new IOBuffer.

    >>> import hmc
    >>> session = hmc.create_session(buffer_size=1 << 20)
    >>> session.buf
    <hmc.IOBuffer: 1048576 bytes of CPU>
    """
    return Session(IOBuffer.create(device_id, buffer_size, mem_type), num_chs, local_ip=local_ip)
