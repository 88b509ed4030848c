"""hmc.Session: python sessions.py NAME. Most tests have a server and a client, which are functions of the file in two
processes. Each process pair has a loopback address of its own, so that tests run side by side with fixed ports."""
import array
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True

import numpy as np

import hmc
from hmc import ConnType, HMCStatusError, MemoryType, status_t

UCX_PORT, RDMA_PORT, CONTROL_PORT, OLD_PORT = 2025, 2026, 5001, 2030
PORTS = {ConnType.UCX: UCX_PORT, ConnType.RDMA: RDMA_PORT}
CLIENT_IP = "127.0.0.1"  # the source of connections to any loopback address
SERVER, CLIENT = 0, 1
SIZE = 1 << 20


def load_torch():
    """None if it isn't installed. Its import takes longer than most tests."""
    if os.environ.get("HMC_TEST_TORCH") == "0":
        return None
    try:
        import torch
    except ImportError:
        return None
    return torch


def own_address():
    return f"127.{100 + (os.getpid() >> 16)}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"


def start(*command, **environment):
    """A Python process: a program, or "--peer" and a function of the file that is being run."""
    command = [*map(str, command)]
    program = [sys.argv[0], *command] if command[0] == "--peer" else command
    return subprocess.Popen([sys.executable, *program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, **environment})


def await_line(process, wanted):
    """Reads the output up to a line that has the text; returns it."""
    output = ""
    for line in process.stdout:
        output += line
        if wanted in line:
            return output
    process.wait()
    raise AssertionError(output)


def finish(*processes):
    """The remaining outputs, after the processes have succeeded."""
    outputs = [process.communicate(timeout=200)[0] for process in processes]
    for process in processes:
        assert process.returncode == 0, "\n".join(outputs)
    return outputs


def both(server, client, **environment):
    """Runs two functions; starts the client when the server listens. Returns the outputs."""
    with tempfile.TemporaryDirectory() as folder:
        first = start("--peer", server.__name__, own_address(), folder, **environment)
        output = await_line(first, "<listens>")
        second = start("--peer", client.__name__, own_address(), folder, **environment)
        rest, other = finish(first, second)
        return output + rest, other


def listening():
    print("<listens>", flush=True)


def bytes_of(source):
    if hasattr(source, "is_contiguous"):  # torch, perhaps without numpy
        import torch
        return bytes(source.detach().contiguous().flatten().view(torch.uint8).tolist())
    return source.tobytes() if hasattr(source, "tobytes") else bytes(source)


def data(rank, length, call):
    """Depends on rank, position and call."""
    i = np.arange(length, dtype=np.int64)
    return ((i * 7 + i // 251 + rank * 101 + call * 13) % 251).astype(np.uint8)


def content_of(buffer, offset, length):
    return np.frombuffer(buffer.buffer_get_cpu(nbytes=length, offset=offset), np.uint8)


def content(session, offset, length):
    return content_of(session.buf, offset, length)


def same(a, b, *context):
    assert np.array_equal(a, b), (context, a[:8], b[:8])


def raises(status, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except HMCStatusError as error:
        assert error.status == status, error
        assert isinstance(error, hmc.HMCError) and isinstance(error, hmc.Error) and status.name in str(error)
        return
    raise AssertionError(f"{function} hasn't raised {status}")


# ---- the newer form

SIZES = (0, 1, 7, 4096, 65537, 300_000)


def newer_server(ip, folder):
    session = hmc.create_session(buffer_size=SIZE, local_ip=ip)
    session.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER,
                        ctrl_uds_dir=folder)
    assert session.id == SERVER and session.local_ip == ip
    listening()
    for conn in PORTS:
        for call, length in enumerate(SIZES):
            assert session.ctrl_recv(CLIENT) == call
            same(content(session, 3, length), data(CLIENT, length, call), conn, "put_remote")
            same(content(session, 400_000, length), data(CLIENT, length, call + 100), conn, "put_nb")
            session.buf.put(data(SERVER, length, call), offset=5)
            session.ctrl_send(CLIENT, 2**64 - 1 - call)
        # Paired, through this side's buffer.
        received, flag = np.zeros(5000, np.uint8), ctypes.c_size_t(0)
        assert session.recv_data_from(CLIENT_IP, 1, received.ctypes.data, 5000, MemoryType.CPU, ctypes.addressof(flag), conn) == 4000
        assert flag.value == 4000
        same(received, np.append(data(CLIENT, 4000, 77), np.zeros(1000, np.uint8)), conn, "recv_data_from")
        answer = data(SERVER, 3000, 78)
        session.send_data_to(CLIENT_IP, 1, answer.ctypes.data, 3000, MemoryType.CPU, conn=conn)
    assert session.ctrl_recv(CLIENT) == 7
    session.close_server()
    session.close_server()
    assert np.arange(10).sum() == 45 and session.buf.size == SIZE  # the interpreter lives
    session.ctrl_send(CLIENT, 8)  # and so do connections


def newer_client(ip, folder):
    session = hmc.Session(hmc.IOBuffer.create(0, SIZE, MemoryType.CPU), num_chs=2)
    if os.environ["CTRL_TRANSPORT"] == "":  # the address selects the Unix socket
        session.set_local_ip(ip)
    session.set_ctrl_uds_dir(folder)
    for conn, port in PORTS.items():
        assert not session.check_conn(ip, port, conn)
        raises(status_t.NOT_FOUND, session.put_remote, ip, port, 0, 0, 1, conn)
        for _ in range(2):  # the second has no effect
            session.connect(peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=port, ctrl_tcp_port=CONTROL_PORT,
                            uds_dir=folder, conn=conn)
        assert session.check_conn(ip, port, conn)
        for call, length in enumerate(SIZES):
            first, second = data(CLIENT, length, call), data(CLIENT, length, call + 100)
            assert session.buffer_put_then_put(ip, port, first, local_off=9, remote_off=3, conn=conn) == length
            session.buf.put(second, offset=9)
            ids = [session.put_nb(ip, port, 9 + at, 400_000 + at, min(50_000, length - at), conn) for at in range(0, length, 50_000)]
            if call % 2:
                session.wait(ids[::-1])
            else:
                for each in ids:
                    session.wait(each)
            session.ctrl_send(SERVER, call)
            assert session.ctrl_recv(SERVER) == 2**64 - 1 - call
            into = np.zeros(length, np.uint8)
            assert session.get_then_buffer_get_into(ip, port, into, remote_off=5, conn=conn) == length
            same(into, data(SERVER, length, call), conn, "get_then_buffer_get_into")
            session.buf.put(bytes(length), offset=1000)
            session.get_remote(ip, port, local_off=1000, remote_off=5, nbytes=length, conn=conn)
            same(content(session, 1000, length), data(SERVER, length, call), conn, "get_remote")
            session.buf.put(bytes(length), offset=1000)
            session.wait([session.get_nb(ip, port, 1000, 5, length, conn)])
            same(content(session, 1000, length), data(SERVER, length, call), conn, "get_nb")
        message = data(CLIENT, 4000, 77)
        session.send_data_to(ip, port, message.ctypes.data, 4000, int(MemoryType.CPU), conn)
        received = np.zeros(3000, np.uint8)
        session.recv_data_from(ip, port, received.ctypes.data, 3000, MemoryType.CPU, 0, conn)
        same(received, data(SERVER, 3000, 78), conn, "send_data_to")
        raises(status_t.ERROR, session.put_remote, ip, port, SIZE - 1, 0, 2, conn)
        raises(status_t.ERROR, session.get_remote, ip, port, 0, SIZE, 1, conn)
        raises(status_t.NOT_FOUND, session.wait, 2**62)
        raises(status_t.NOT_FOUND, session.ctrl_send, 9, 1)
    session.disconnect(ip, RDMA_PORT, ConnType.RDMA)
    assert not session.check_conn(ip, RDMA_PORT, ConnType.RDMA) and session.check_conn(ip, UCX_PORT, ConnType.UCX)
    raises(status_t.NOT_FOUND, session.put_remote, ip, RDMA_PORT, 0, 0, 1)
    session.ctrl_send(SERVER, 7)
    assert session.ctrl_recv(SERVER) == 8


def test_newer_form_tcp():
    outputs = both(newer_server, newer_client, CTRL_TRANSPORT="tcp")
    # Without a device RDMA falls back, and each process says why, once.
    import glob
    if not glob.glob("/sys/class/infiniband/*") and not os.environ.get("HMC_TRANSPORT"):
        assert all(output.count("ConnType::RDMA uses") == 1 for output in outputs), outputs


def test_newer_form_unix_sockets():
    both(newer_server, newer_client, CTRL_TRANSPORT="uds")


def test_newer_form_by_address():
    both(newer_server, newer_client, CTRL_TRANSPORT="")


# ---- the first version's form

def older_server(ip, folder):
    sessions = {conn: hmc.create_session(buffer_size=SIZE) for conn in PORTS}
    for conn, session in sessions.items():
        session.init_server(ip, OLD_PORT + conn, conn)
    listening()
    for conn, session in sessions.items():
        size = 70_000
        got = np.zeros(size, np.uint8)
        session.get_into(CLIENT_IP, got, 11, conn)  # waits for the client
        same(got, data(CLIENT, size, conn), conn, "get_into")
        while not content(session, 200_000, 1)[0]:
            os.sched_yield()
        same(content(session, 200_001, size), data(CLIENT, size, conn + 5), conn, "put")
        session.put(CLIENT_IP, data(SERVER, size, conn), 400_000, conn)
        session.put(CLIENT_IP, b"\1", bias=399_999, conn=conn, size=1)
        while session.check_conn(CLIENT_IP, conn):
            os.sched_yield()
        session.close_server()


def older_client(ip, folder):
    for conn in PORTS:
        session = hmc.create_session(buffer_size=SIZE)
        size = 70_000
        session.buf.put(data(CLIENT, size, conn), offset=11)
        session.connect(ip, OLD_PORT + conn, conn=conn)
        assert session.check_conn(ip, conn) and session.check_conn(ip, OLD_PORT + conn)
        session.put(ip, data(CLIENT, size, conn + 5).reshape(-1, 7), bias=200_001, conn=conn)
        assert session.get(ip, size, bias=200_001, conn=conn) == data(CLIENT, size, conn + 5).tobytes()
        session.put(ip, bytearray(b"\1xx"), conn=conn, bias=200_000, size=1)
        while not content(session, 399_999, 1)[0]:
            os.sched_yield()
        same(content(session, 400_000, size), data(SERVER, size, conn), conn, "the server's put")
        into = np.zeros((10, 6999), np.uint8)
        session.get_into(ip, into, 400_000, conn)  # the server's own copy is there since its put
        same(into.ravel(), data(SERVER, size, conn)[:69_990], conn, "get_into")
        session.disconnect(ip, conn)
        assert not session.check_conn(ip, conn)


def test_older_form():
    assert hmc.Status is hmc.status_t and hmc.Status.SUCCESS == 0
    both(older_server, older_client)


# ---- Communicator, whose calls return a status

def capsule(address):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, b"test", None)


def succeeded(*statuses):
    assert [*statuses] == [status_t.SUCCESS] * len(statuses), statuses


def communicator_server(ip, folder):
    buffer, older_buffer = hmc.ConnBuffer(1, SIZE, MemoryType.CPU), hmc.ConnBuffer(0, SIZE)
    assert (buffer.device_id, buffer.buffer_size, buffer.mem_type) == (1, SIZE, MemoryType.CPU)
    newer, older = hmc.Communicator(buffer, num_chs=1), hmc.Communicator(older_buffer)
    path = hmc.Communicator.udsPathFor(folder, SERVER)
    succeeded(*(newer.initServer(ip, port, CONTROL_PORT, path, conn) for conn, port in PORTS.items()),
              older.initServer(ip, OLD_PORT, ConnType.RDMA))
    listening()
    for call, conn in enumerate(PORTS):
        assert newer.ctrlRecv(CLIENT) == (status_t.SUCCESS, call)
        out, received = np.zeros(50_000, np.uint8), np.zeros(5000, np.uint8)
        succeeded(buffer.readToCpu(out, 50_000, 7))
        same(out, data(CLIENT, 50_000, call), conn, "putNB")
        succeeded(newer.recvDataFrom(CLIENT_IP, 1, capsule(received.ctypes.data), 5000, MemoryType.CPU, 64, conn))
        same(received[:4000], data(CLIENT, 4000, call + 10), conn, "recvDataFrom")
        succeeded(newer.recv(CLIENT_IP, 100, 1000, conn), buffer.readToCpu(out, 1000, 100))
        same(out[:1000], data(CLIENT, 1000, call + 20), conn, "recv")
        succeeded(newer.ctrlSend(CLIENT, 2**63 + call))
    received = np.zeros(5000, np.uint8)
    while older.checkConn(CLIENT_IP, ConnType.RDMA) == status_t.NOT_FOUND:  # the client hasn't connected yet
        os.sched_yield()
    succeeded(older.recvDataFrom(CLIENT_IP, received.ctypes.data, 5000, MemoryType.CPU, 64, ConnType.RDMA))
    same(received[:4000], data(CLIENT, 4000, 30), "recvDataFrom without a port")
    answer = data(SERVER, 3000, 31)
    succeeded(older.sendDataTo(CLIENT_IP, answer.ctypes.data, 3000, MemoryType.CPU))
    succeeded(older.closeServer(), newer.closeServer(), newer.closeCtrl())


def communicator_client(ip, folder):
    buffer, link = hmc.ConnBuffer(0, SIZE, MemoryType.CPU), hmc.CtrlLink()
    newer, older = hmc.Communicator(buffer), hmc.Communicator(buffer, 1)
    link.transport, link.uds_path = hmc.CtrlTransport.UDS, hmc.Communicator.udsPathFor(folder, SERVER)
    assert newer.connectTo(SERVER, CLIENT, ip, UCX_PORT, hmc.CtrlLink()) == status_t.INVALID_CONFIG
    for call, (conn, port) in enumerate(PORTS.items()):
        assert newer.checkConn(ip, port, conn) == newer.put(ip, port, 0, 0, 1, conn) == status_t.NOT_FOUND
        succeeded(newer.connectTo(SERVER, CLIENT, ip, port, link, conn), newer.checkConn(ip, port, conn))
        message, small = data(CLIENT, 4000, call + 10), data(CLIENT, 1000, call + 20)
        succeeded(buffer.writeFromCpu(data(CLIENT, 50_000, call), 50_000, 3), buffer.copyWithin(100_000, 3, 50_000))
        status, number = newer.putNB(ip, port, 100_000, 7, 50_000, conn)
        succeeded(status, newer.wait(number), newer.wait([]), newer.wait(0))
        succeeded(newer.get(ip, port, 200_000, 7, 50_000, conn))
        same(np.frombuffer(buffer_bytes(buffer, 50_000, 200_000), np.uint8), data(CLIENT, 50_000, call), conn, "get")
        succeeded(newer.ctrlSend(SERVER, call), newer.sendDataTo(ip, port, capsule(message.ctypes.data), 4000, MemoryType.CPU, conn))
        succeeded(buffer.writeFromCpu(small, 1000, 300_000), newer.send(ip, 300_000, 1000, conn))
        assert newer.ctrlRecv(SERVER) == (status_t.SUCCESS, 2**63 + call)
        assert newer.put(ip, port, SIZE - 1, 0, 2, conn) == status_t.ERROR
        succeeded(newer.disConnect(ip, port, conn), newer.disConnect(ip, port, conn))
        assert newer.checkConn(ip, port, conn) == status_t.NOT_FOUND
    message = data(CLIENT, 4000, 30)
    succeeded(older.connectTo(ip, OLD_PORT, ConnType.RDMA), older.checkConn(ip, ConnType.RDMA),
              buffer.writeFromCpu(message, 4000), older.writeTo(ip, 0, 4000), buffer.writeFromCpu(bytes(4000), 4000),
              older.readFrom(ip, 0, 4000))
    same(np.frombuffer(buffer_bytes(buffer, 4000, 0), np.uint8), message, "readFrom")
    succeeded(older.sendDataTo(ip, message.ctypes.data, 4000, MemoryType.CPU),
              older.recvDataFrom(ip, message.ctypes.data, 4000, MemoryType.CPU, 0), older.disConnect(ip, ConnType.RDMA))
    same(message[:3000], data(SERVER, 3000, 31), "the server's sendDataTo")


def buffer_bytes(buffer, length, offset):
    out = bytearray(length)
    succeeded(buffer.readToCpu(out, length, offset))
    return out


def test_communicator_in_both_forms():
    both(communicator_server, communicator_client)
    buffer = hmc.ConnBuffer(0, 100, MemoryType.CPU)
    for function, arguments in [(buffer.writeFromCpu, (b"12", 2, 99)), (buffer.writeFromCpu, (b"12", 3)), (buffer.readToCpu, (bytearray(2), 3)),
                                (buffer.copyWithin, (0, 99, 2)), (buffer.writeFromCpu, (b"12", 2**63, 2**63))]:
        try:
            function(*arguments)
        except RuntimeError:
            continue
        raise AssertionError((function, arguments))
    session = hmc.create_session(buffer_size=100, device_id=2)
    assert session.buf.device_id == 2 and session.comm.checkConn("127.0.0.1", 1) == status_t.NOT_FOUND
    for arguments in [("1.2.3.4",), ("1.2.3.4", 1, 2), ("1.2.3.4", "memory", 1, MemoryType.CPU, ConnType.UCX), ("1.2.3.4", 1, 2, 3, 4, 5, 6, 7)]:
        try:
            session.comm.sendDataTo(*arguments)
        except TypeError:
            continue
        raise AssertionError(arguments)


# ---- IOBuffer

class OlderTensor:
    """A tensor of torch 1.13, which has no nbytes."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array
        self.numel, self.element_size = lambda: array.size, lambda: array.itemsize


def test_sizes_of_arrays():
    numbers = np.arange(6, dtype=np.int32)
    for each in (numbers, OlderTensor(numbers), numbers.tobytes(), memoryview(numbers), array.array("i", range(6))):
        assert hmc.session.nbytes_of(each) == 24, each


def test_buffer_from_and_into_arrays():
    buffer = hmc.IOBuffer.create(0, 1 << 16, MemoryType.CPU)
    assert (buffer.size, buffer.mem_type, buffer.device_id) == (1 << 16, MemoryType.CPU, 0) and buffer.ptr
    torch = load_torch()
    picture = np.arange(200, dtype=np.uint8).reshape(10, 20)
    sources = [b"", b"x", b"abc", bytearray(b"defg"), memoryview(b"hi").cast("b"), array.array("d", [1.5, -2]), picture,
               np.float32(3.5) * np.ones((3, 4, 5), np.float32), picture[:, ::2], picture.T, np.array(7), memoryview(picture)[::2],
               np.array([True, False]), np.array(["2020-01-01"], "datetime64[D]")]
    picture.flags.writeable = False  # a source
    if torch is not None:
        sources += [torch.arange(60, dtype=torch.uint8).reshape(6, 10), torch.arange(60, dtype=torch.int64).reshape(6, 10)[:, 3:5],
                    torch.tensor([1.5, -2, 1e30], dtype=torch.bfloat16), torch.ones(3, requires_grad=True),
                    torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T, torch.zeros(0)]
    for offset, source in enumerate(sources):
        expected = bytes_of(source)
        assert buffer.put(source, offset=offset) == len(expected), source
        assert buffer.buffer_get_cpu(nbytes=len(expected), offset=offset) == expected, source
    for destination in [bytearray(24), array.array("i", [0] * 6), np.zeros((2, 12), np.uint8), np.zeros((2, 3), np.float32),
                        memoryview(bytearray(24)), *([torch.zeros(2, 6, dtype=torch.bfloat16), torch.zeros((4, 6), dtype=torch.uint8)]
                                                     if torch is not None else [])]:
        pattern = bytes(data(3, 24, 1) & 63)  # as bfloat16 or float32 neither NaN nor infinite
        buffer.put(pattern, offset=100)
        buffer.get_into(destination, nbytes=24, offset=100)
        assert bytes_of(destination) == pattern, destination
    # A part of the source, and of the destination.
    assert buffer.buffer_put_cpu(picture, nbytes=30, offset=0) == 30
    part = np.full(40, 255, np.uint8)
    buffer.buffer_get_cpu_into(part, nbytes=30)
    assert part.tolist() == list(range(30)) + [255] * 10
    buffer.buffer_copy_within(dst_offset=5, src_offset=0, nbytes=30)  # the ranges overlap
    assert buffer.buffer_get_cpu(nbytes=35) == bytes([0, 1, 2, 3, 4, *range(30)])


def test_buffer_over_existing_memory():
    array = np.zeros(100)
    buffer = hmc.IOBuffer.borrow(array)
    assert (buffer.ptr, buffer.size, buffer.mem_type) == (array.ctypes.data, 800, MemoryType.CPU)
    buffer.put(np.arange(5.0), offset=80)
    assert array.tolist() == [0] * 10 + [0, 1, 2, 3, 4] + [0] * 85
    array[0] = 7
    del array  # the buffer keeps it
    assert np.frombuffer(buffer.buffer_get_cpu(nbytes=8)).tolist() == [7]
    for wrong in (b"12345678", np.zeros((4, 4))[:, 1]):
        try:
            hmc.IOBuffer.borrow(wrong)
        except (BufferError, ValueError):
            continue
        raise AssertionError(wrong)


def over_memory_server(ip, folder):
    array = np.zeros(SIZE, np.uint8)
    session = hmc.Session(hmc.IOBuffer.borrow(array), local_ip=ip)
    session.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER,
                        ctrl_uds_dir=folder)
    listening()
    assert session.ctrl_recv(CLIENT) == 1
    assert np.array_equal(array[17:50_017], data(CLIENT, 50_000, 1))
    array[100:50_100] = data(SERVER, 50_000, 2)
    session.ctrl_send(CLIENT, 2)
    assert session.ctrl_recv(CLIENT) == 3


def over_memory_client(ip, folder):
    array = np.zeros(SIZE, np.uint8)
    session = hmc.Session(hmc.IOBuffer.borrow(array), local_ip=ip)
    session.connect(peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=UCX_PORT, ctrl_tcp_port=CONTROL_PORT, uds_dir=folder,
                    conn=ConnType.UCX)
    array[5:50_005] = data(CLIENT, 50_000, 1)
    session.put_remote(ip, UCX_PORT, 5, 17, 50_000, ConnType.UCX)
    session.ctrl_send(SERVER, 1)
    assert session.ctrl_recv(SERVER) == 2
    session.get_remote(ip, UCX_PORT, 0, 100, 50_000, ConnType.UCX)
    assert np.array_equal(array[:50_000], data(SERVER, 50_000, 2))
    session.ctrl_send(SERVER, 3)


def test_sessions_over_existing_memory():
    both(over_memory_server, over_memory_client)


def test_buffer_errors():
    torch = load_torch()
    buffer = hmc.IOBuffer.create(0, 100, MemoryType.CPU)
    raises(status_t.ERROR, buffer.put, b"12", offset=99)
    raises(status_t.ERROR, buffer.buffer_get_cpu, nbytes=101)
    raises(status_t.ERROR, buffer.buffer_copy_within, dst_offset=0, src_offset=50, nbytes=51)
    raises(status_t.UNSUPPORT, buffer.buffer_put_gpu_ptr, np.zeros(1).ctypes.data, nbytes=8)
    raises(status_t.UNSUPPORT, hmc.IOBuffer.create, 0, 100, MemoryType.CAMBRICON_MLU)
    raises(status_t.UNSUPPORT, hmc.create_session, mem_type=MemoryType.MOORE_GPU, buffer_size=100)
    whole = np.zeros((10, 10), np.uint8)
    read_only = np.zeros(10)
    read_only.flags.writeable = False
    scattered = [whole[:, :5], whole.T[::2], memoryview(bytearray(20))[::2]]
    if torch is not None:
        scattered.append(torch.zeros(4, 4)[:, :2])
    for wrong in [*scattered, read_only, b"0123456789"]:
        try:
            buffer.get_into(wrong, nbytes=4)
        except ValueError as error:
            assert "contiguous" in str(error) or "read-only" in str(error), error
        else:
            raise AssertionError(f"{wrong!r} was written")
    assert not whole.any()
    for function, arguments, error_type in [
            (buffer.put, {"data": b"12", "nbytes": 3}, ValueError), (buffer.put, {"data": 5, "device": "ptr"}, ValueError),
            (buffer.put, {"data": b"1", "device": "ptr", "nbytes": 1}, TypeError), (buffer.put, {"data": "text"}, TypeError),
            (buffer.put, {"data": b"1", "device": "gpu"}, ValueError), (buffer.buffer_put_cuda, {"t": b"1"}, ValueError),
            (buffer.get_into, {"dst": bytearray(2), "nbytes": 3}, ValueError), (hmc.memory_type_from_torch_tensor, {"t": 1}, TypeError)]:
        try:
            function(**arguments)
        except error_type:
            continue
        except ImportError:
            assert torch is None
            continue
        raise AssertionError((function, arguments))
    if torch is not None:
        assert hmc.memory_type_from_torch_tensor(torch.zeros(1)) is MemoryType.CPU
        assert hmc.memory_type_from_torch_tensor(torch.zeros(1, device="meta")) is MemoryType.DEFAULT
        assert hmc.memory_type_from_torch_tensor(torch.zeros(1, device="meta"), default=MemoryType.CPU) is MemoryType.CPU
    assert [(e.name, int(e)) for e in ConnType] == [("RDMA", 0), ("UCX", 1)]
    assert hmc.CtrlTransport.UDS == 1 and MemoryType(2) is MemoryType.NVIDIA_GPU and hmc.memory_supported() in MemoryType


# ---- device memory, on a stand-in for the driver

class DeviceArray:
    """An array in the memory of an IOBuffer on a device."""

    def __init__(self, buffer, shape, typestr, strides=None):
        self.buffer = buffer
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (buffer.ptr, False), "strides": strides, "version": 3}
        self.nbytes = int(np.prod(shape)) * int(typestr[2:])


def device_server(ip, folder):
    session = hmc.create_session(buffer_size=SIZE, mem_type=MemoryType.NVIDIA_GPU, local_ip=ip)
    session.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER,
                        ctrl_uds_dir=folder)
    listening()
    for conn in PORTS:
        assert session.ctrl_recv(CLIENT) == 1
        same(content(session, 17, 50_000), data(CLIENT, 50_000, conn), "put from device to device")
        session.buf.put(data(SERVER, 50_000, conn), offset=100)
        session.ctrl_send(CLIENT, 2)
    assert session.ctrl_recv(CLIENT) == 3


def device_client(ip, folder):
    session = hmc.create_session(buffer_size=SIZE, mem_type=MemoryType.DEFAULT, local_ip=ip)
    assert session.buf.mem_type is MemoryType.NVIDIA_GPU is hmc.memory_supported()
    other = hmc.IOBuffer.create(0, 50_000, MemoryType.NVIDIA_GPU)
    tensor = DeviceArray(other, (500, 100), "|u1")
    for conn, port in PORTS.items():
        session.connect(peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=port, ctrl_tcp_port=CONTROL_PORT, uds_dir=folder,
                        conn=conn)
        other.put(data(CLIENT, 50_000, conn))
        assert session.buffer_put_then_put(ip, port, tensor, remote_off=17, conn=conn) == 50_000
        session.ctrl_send(SERVER, 1)
        assert session.ctrl_recv(SERVER) == 2
        other.put(bytes(50_000))
        assert session.get_then_buffer_get_into(ip, port, tensor, local_off=64, remote_off=100, conn=conn, device="cuda") == 50_000
        assert other.buffer_get_cpu(nbytes=50_000) == data(SERVER, 50_000, conn).tobytes()
    host = hmc.IOBuffer.create(0, 4096, MemoryType.CPU)
    other.put(data(1, 4096, 2))
    assert host.put(other.ptr, nbytes=4096, device="ptr") == 4096 == host.buffer_put_cuda(tensor, nbytes=4096)
    assert host.buffer_get_cpu(nbytes=4096) == data(1, 4096, 2).tobytes()
    host.put(data(1, 4096, 3))
    host.get_into(other.ptr, nbytes=4096, device="ptr")
    assert other.buffer_get_cpu(nbytes=4096) == data(1, 4096, 3).tobytes()
    assert host.buffer_get_cuda(tensor, nbytes=10) == 10
    for wrong in (DeviceArray(other, (10, 10), "|u1", (20, 1)),):
        for function in (host.buffer_put_cuda, host.buffer_get_cuda):
            try:
                function(wrong)
            except ValueError as error:
                assert "contiguous" in str(error)
            else:
                raise AssertionError(function)
    try:
        host.buffer_put_cpu(tensor)
    except ValueError as error:
        assert "device" in str(error)
    session.ctrl_send(SERVER, 3)


def test_device_memory():
    library = os.environ.get("HMC_TEST_CUDA_LIBRARY", "")
    if not os.path.exists(library):
        print(f"missing: {library} isn't built")
        sys.exit(77)
    both(device_server, device_client, HMC_CUDA_LIBRARY=library)


# ---- failures

def mortal_server(ip, folder):
    session = hmc.create_session(buffer_size=SIZE, local_ip=ip)
    session.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER,
                        ctrl_uds_dir=folder)
    listening()
    assert session.ctrl_recv(CLIENT) == 1
    session.ctrl_send(CLIENT, 2)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_peer_that_dies():
    with tempfile.TemporaryDirectory() as folder:
        ip = own_address()
        server = start("--peer", "mortal_server", ip, folder)
        await_line(server, "<listens>")
        session = hmc.create_session(buffer_size=SIZE, local_ip=ip)
        session.set_ctrl_uds_dir(folder)
        session.connect(peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=UCX_PORT, ctrl_tcp_port=CONTROL_PORT, conn=ConnType.UCX)
        session.put_remote(ip, UCX_PORT, 0, 0, 10, ConnType.UCX)
        session.ctrl_send(SERVER, 1)
        assert server.wait(timeout=100) == -signal.SIGKILL
        assert session.ctrl_recv(SERVER) == 2  # it was sent before
        raises(status_t.ERROR, session.ctrl_recv, SERVER)
        while session.check_conn(ip, UCX_PORT, ConnType.UCX):
            os.sched_yield()
        raises(status_t.ERROR, session.put_remote, ip, UCX_PORT, 0, 0, 10, ConnType.UCX)
        raises(status_t.ERROR, session.ctrl_send, SERVER, 1)


def test_timeouts():
    os.environ["HMC_TIMEOUT_S"] = "1"
    ip = own_address()
    session = hmc.create_session(buffer_size=SIZE, local_ip=ip)
    for conn, port in PORTS.items():  # nothing listens there
        raises(status_t.TIMEOUT, session.connect, peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=port,
               ctrl_tcp_port=CONTROL_PORT, conn=conn)
    with tempfile.TemporaryDirectory() as folder:
        session.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER,
                            ctrl_uds_dir=folder)
        assert not session.check_conn(ip, UCX_PORT)
        raises(status_t.TIMEOUT, session.get, ip, 10)
        for arguments in ({"bind_ip": ip}, {}):
            try:
                session.init_server(**arguments)
            except TypeError:
                continue
            raise AssertionError(arguments)


def test_a_wait_lets_other_threads_run_and_answers_signals():
    ip = own_address()
    with tempfile.TemporaryDirectory() as folder:
        server = hmc.create_session(buffer_size=SIZE, local_ip=ip)
        server.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER,
                           ctrl_uds_dir=folder)
        tags = []
        thread = threading.Thread(target=lambda: tags.append(server.ctrl_recv(CLIENT)))
        thread.start()
        client = hmc.create_session(buffer_size=SIZE, local_ip=ip)
        client.connect(peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=UCX_PORT, ctrl_tcp_port=CONTROL_PORT, uds_dir=folder,
                       conn=ConnType.UCX)
        client.ctrl_send(SERVER, 5)
        thread.join()
        assert tags == [5]
        into = np.zeros(100, np.uint8)
        # For peers that are connected, and for one that isn't; a handler that raises ends the wait.
        for wait in (lambda: client.ctrl_recv(SERVER), lambda: server.ctrl_recv(7), lambda: server.get("127.1.2.3", 10),
                     lambda: client.recv_data_from(ip, UCX_PORT, into.ctypes.data, 100, MemoryType.CPU, 0, ConnType.UCX)):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                wait()
            except KeyboardInterrupt:
                continue
            raise AssertionError("the wait has ended without the signal")
        server.ctrl_send(CLIENT, 6)
        assert client.ctrl_recv(SERVER) == 6


# ---- the package

def test_names_are_imported_at_first_use():
    text = "import sys, hmc; assert 'hmc.session' not in sys.modules; hmc.Session; assert 'hmc.collective' not in sys.modules; " \
           "from hmc import alltoall, HMCError; import hmc.collective; assert hmc.collective.Group; assert 'numpy' not in sys.modules; " \
           "assert {'Session', 'Group', 'init'} <= set(dir(hmc))"
    subprocess.run([sys.executable, "-c", text], check=True)
    try:
        hmc.no_such_name  # pylint: disable=no-member,pointless-statement
    except AttributeError:
        pass
    import doctest
    import pickle
    assert doctest.testmod(hmc.session).failed == doctest.testmod(hmc.communicator).failed == 0
    error = pickle.loads(pickle.dumps(HMCStatusError(status_t.TIMEOUT, "put_remote: 1.2.3.4:5")))
    assert (error.status, error.code, error.operation) == (status_t.TIMEOUT, "timeout", "put_remote"), vars(error)


def test_two_terminals():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python", "two_terminals.py")
    server = start(program, "server", own_address())
    await_line(server, "server: waiting")
    outputs = finish(server, start(program, "client", own_address()))
    assert "answered 100000 numbers twice" in outputs[0] and "read back 100000 numbers twice" in outputs[1], outputs


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        globals()[sys.argv[2]](*sys.argv[3:])
    else:
        globals()[sys.argv[1]]()
