"""hmc.PhysicalMemory between processes, on fake drivers: python buffers_shared.py NAME."""
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from fake_devices import cuda, pattern, raises, run_one_test

import numpy as np

import hmc


def peer(descriptor):
    """The other process: it adds 1 to the bytes of the memory that it receives, sends it back, and ends."""
    with socket.socket(fileno=int(descriptor)) as other:
        memory = hmc.PhysicalMemory.receive(other, timeout=60)
        with memory.map() as mapping:
            got = mapping.read(np.zeros(1000, "uint8"))
            mapping.write(got + 1)
        memory.send(other)


def test_physical_memory_passes_to_another_process():
    live = lambda: sum(cuda.library.fake_live(kind) for kind in (b"physical", b"mapping", b"reservation"))
    with hmc.PhysicalMemory.create(1000) as memory:  # opens the driver
        memory.map().unmap()
    before = live()
    for allocator in ("cuda", "hip"):
        memory = hmc.PhysicalMemory.create(1000, allocator, device=1)
        assert (memory.nbytes, memory.device, memory.allocator, memory.is_open) == (2 << 20, 1, allocator, True)
        mapping, reader = memory.map(), memory.map("read")
        assert mapping.nbytes == 2 << 20 and mapping.ptr != reader.ptr and (mapping.access, reader.access) == ("read_write", "read")
        sent = pattern(1000, "uint8", 1)
        mapping.write(sent)
        mine, theirs = socket.socketpair()
        with mine, theirs:
            process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "peer", str(theirs.fileno())],
                                       pass_fds=[theirs.fileno()])
            memory.send(mine)
            back = hmc.PhysicalMemory.receive(mine, 1, timeout=60)
        assert process.wait(60) == 0
        assert np.array_equal(reader.read(np.zeros(1000, "uint8")), sent + 1)
        assert np.array_equal(back.map().read(np.zeros(10, "uint8"), offset=5), (sent + 1)[5:15])
        back.close()
        back.close()
        raises(hmc.Error, back.map, "closed")
        assert (back.nbytes, back.device, back.allocator, back.is_open) == (0, -1, None, False)

        # A descriptor, also after its exporter's references have ended.
        fd = memory.export_fd()
        assert fcntl.fcntl(fd, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
        memory.close()
        reader.unmap()
        imported = hmc.PhysicalMemory.import_fd(fd, 1000, allocator)
        raises(hmc.Error, lambda: hmc.PhysicalMemory.import_fd(fd, 4 << 20, allocator), "another size than 4194304")
        os.close(fd)
        raises(hmc.Error, lambda: hmc.PhysicalMemory.import_fd(fd, 1000, allocator), "isn't an open descriptor")
        seen = imported.map("read")
        imported.close()
        assert np.array_equal(seen.read(np.zeros(1000, "uint8")), sent + 1)
        raises(hmc.Error, lambda: seen.write(sent), "only reads")
        raises(hmc.Error, lambda: mapping.write(sent, offset=2 << 20), "exceed")

        # As an array of the device.
        interface = seen.__cuda_array_interface__
        assert interface["data"] == (seen.ptr, True) and interface["shape"] == (2 << 20,) and interface["typestr"] == "|u1"
        buffer = hmc.Buffer.from_array(mapping)
        assert buffer.ptr == mapping.ptr and buffer.get(0, np.zeros(5, "uint8")).tolist() == (sent + 1)[:5].tolist()
        buffer.set(0, pattern(100, "uint8", 2))
        assert np.array_equal(seen.read(np.zeros(100, "uint8")), pattern(100, "uint8", 2))
        raises(BufferError, lambda: hmc.Buffer.from_array(seen), "read-only")
        del buffer
        seen.unmap()
        seen.unmap()
        assert (seen.ptr, seen.nbytes) == (0, 0)
        raises(hmc.Error, lambda: seen.__cuda_array_interface__, "empty")
        with hmc.init() as rt, hmc.Window(rt.world, mapping) as window:
            mapping.unmap()  # the window keeps the memory
            window.put(0, 50, sent)
            assert np.array_equal(window.get(0, 50, np.zeros(1000, "uint8")), sent)
        del mapping, reader, seen, imported, memory, back
    assert live() == before
    raises(hmc.Error, lambda: hmc.PhysicalMemory.create(1, "host_malloc"), "host memory")
    raises(ValueError, lambda: hmc.PhysicalMemory.create(1, "cuda_pinned"), "no device memory")
    raises(ValueError, lambda: hmc.PhysicalMemory.create(1).map("write"), "no access")
    raises(ValueError, lambda: hmc.PhysicalMemory.import_fabric(b"123", 1), "64 bytes")
    raises(hmc.Error, lambda: hmc.PhysicalMemory.create(1).export_fabric(), "fabric")
    raises(hmc.Error, lambda: hmc.PhysicalMemory.create(1, device=9), "devices 0 to 1")
    mine, theirs = socket.socketpair()
    with mine, theirs:
        raises(hmc.Timeout, lambda: hmc.PhysicalMemory.receive(mine, timeout=0.001))
        theirs.close()
        raises(hmc.PeerFailed, lambda: hmc.PhysicalMemory.receive(mine, timeout=60), "closed the socket")

    # Threads share both objects.
    memory = hmc.PhysicalMemory.create(4000)
    mapping = memory.map()

    def work(number):
        for round in range(20):
            values = pattern(1000, "uint8", 4 * round + number)
            mapping.write(values, 1000 * number)
            with memory.map("read") as view:
                if not np.array_equal(view.read(np.zeros(1000, "uint8"), 1000 * number), values):
                    wrong.append(number)
    wrong, threads = [], [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

    # A thread that waits for the other process in send() delays no other thread.
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                mine.send(bytes(1 << 16))
        outcomes = []

        def send():
            try:
                memory.send(mine, timeout=60)
            except hmc.Error as error:
                outcomes.append(type(error))
        sender = threading.Thread(target=send)
        sender.start()
        start = time.monotonic()
        while time.monotonic() < start + 0.05:
            assert memory.nbytes == 2 << 20
        theirs.close()
        sender.join()
        assert outcomes == [hmc.PeerFailed], outcomes


if __name__ == "__main__":
    if sys.argv[1] == "peer":
        peer(sys.argv[2])
    else:
        run_one_test(globals())
