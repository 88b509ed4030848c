"""memfabric_hybrid and mf_smem: python memfabric.py NAME. Needs an environment with the installed package."""
import ctypes
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

sys.dont_write_bytecode = True

import numpy as np

import memfabric_hybrid
import mf_smem
from memfabric_hybrid import bm, shm
from processes import job

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")
MiB = 1 << 20
HOST, DEVICE = bm.BmMemType.HOST, bm.BmMemType.DEVICE

PREAMBLE = """
    import ctypes, threading, time
    import memfabric_hybrid
    from memfabric_hybrid import TransferEngine, bm, get_last_err_msg, shm
    rank, size = int(os.environ["HMC_RANK"]), int(os.environ["HMC_SIZE"])
    after, before = (rank + 1) % size, (rank - 1) % size
    MiB, HOST, DEVICE = 1 << 20, bm.BmMemType.HOST, bm.BmMemType.DEVICE
    def array(of, count=1000):
        return np.arange(count, dtype=np.int64) * 3 + 1_000_003 * of
    def pool_of(host=4 * MiB, device=4 * MiB, **more):
        config = bm.BmConfig()
        config.auto_ranking, config.rank_id = False, rank
        assert bm.initialize("hmc://", size, int(os.environ.get("DEVICE", -1)), config) == 0, get_last_err_msg()
        pool = bm.create2(0, host, local_hbm_size=device, **more)
        assert pool.join() == 0, get_last_err_msg()
        pool.barrier(size)
        return pool
    def memory_of(bytes=4 * MiB):
        assert shm.initialize("hmc://", size, rank, -1, shm.ShmConfig()) == 0, get_last_err_msg()
        return shm.create(0, size, rank, bytes)
    def raises(call):
        try:
            call()
        except RuntimeError as error:
            assert str(error) == get_last_err_msg() and str(error)
            return
        raise AssertionError("no error")
"""


def run(ranks, program, *options, environment=None):
    return job(ranks, textwrap.dedent(PREAMBLE) + textwrap.dedent(program), *options, status=0, environment=environment)


def free_url():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def test_memfabric_functions_are_those_of_the_headers():
    """Each function of the installed headers has a declaration, except one that only C needs."""
    include = memfabric_hybrid.get_include_path()
    declared = set()
    for name in os.listdir(include):
        if name.startswith("smem") and name.endswith(".h"):
            with open(os.path.join(include, name), encoding="utf-8") as file:
                text = file.read()
            declared |= set(re.findall(r"^SMEM_API[^;(]*?\b(smem_\w+)\(", text, re.M))
            with open(os.path.join(include, "smem", "host", name), encoding="utf-8") as file:
                assert file.read() == text, name
    from memfabric_hybrid import _library  # pylint: disable=import-outside-toplevel
    assert len(declared) > 60 and declared - {"smem_bm_copy_v1"} == _library.functions, declared ^ _library.functions


def test_memfabric_structures_have_the_sizes_of_c():
    names = {"BmConfigStruct": "smem_bm_config_t", "BmOptions": "smem_bm_create_option_t", "CopyParams": "smem_copy_params",
             "BatchParams": "smem_batch_copy_params", "Counter": "smem_counter_t", "ShmConfigStruct": "smem_shm_config_t",
             "TransConfig": "smem_trans_config_t", "TlsConfig": "smem_tls_config"}
    from memfabric_hybrid import _library  # pylint: disable=import-outside-toplevel
    lines = "".join(f'printf("{name} %zu\\n", sizeof({c}));' for name, c in names.items())
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "sizes.c"), os.path.join(folder, "sizes")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\n#include <smem_hmc.h>\n#include <smem_trans.h>\n"
                       f"int main(void) {{ {lines} return smem_init(0); }}\n")
        library = memfabric_hybrid.get_lib_path()
        subprocess.run(["cc", "-std=c99", "-I", memfabric_hybrid.get_include_path(), source, "-o", program, "-L", library,
                        "-lmf_smem", f"-Wl,-rpath,{library}", f"-Wl,-rpath-link,{library}",
                        "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True)
        sizes = dict(line.split() for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines())
    for name in names:
        assert ctypes.sizeof(getattr(_library, name)) == int(sizes[name]), name


def test_memfabric_errors_and_defaults():
    config = bm.BmConfig()
    assert (config.init_timeout, config.create_timeout, config.operation_timeout) == (120, 120, 120)
    assert config.start_store and not config.auto_ranking and config.unified_address_space
    assert not config.start_store_only and not config.dynamic_world_size and config.rank_id == 65535
    assert bm.initialize("tcp://127.0.0.1", 2, 0, config) == -2000
    assert "127.0.0.1" in memfabric_hybrid.get_last_err_msg()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(memfabric_hybrid.get_last_err_msg()))
    thread.start()
    thread.join()
    assert seen == [""], "the last error is per thread"
    assert memfabric_hybrid.get_and_clear_last_err_msg() and memfabric_hybrid.get_last_err_msg() == ""
    assert bm.bm_rank_id() == 2**32 - 1
    for call in (lambda: bm.create(0, 2 * MiB, 0), lambda: shm.create(0, 1, 0, 2 * MiB)):
        try:
            call()
        except RuntimeError as error:
            assert "init" in str(error)
        else:
            raise AssertionError("no error before initialize")
    assert memfabric_hybrid.initialize() == 0 and memfabric_hybrid.initialize(5) == -2000
    config.set_nic("tcp://203.0.113.7:5000")
    assert bm.initialize(free_url(), 2, 0, config) == 0, "operations of devices don't use it"
    try:
        bm.create(0, 2 * MiB, data_op_type=bm.BmDataOpType.HOST_TCP)
    except RuntimeError as error:
        assert "hcomUrl" in str(error)
    else:
        raise AssertionError("no address in this network")
    memfabric_hybrid.uninitialize()


def test_memfabric_logger_and_tls():
    lines = []
    assert memfabric_hybrid.set_extern_logger(lambda level, text: lines.append((level, text))) == 0
    assert memfabric_hybrid.set_log_level(9) == -2000
    assert lines == [(3, memfabric_hybrid.get_last_err_msg())]
    assert memfabric_hybrid.set_extern_logger(None) == 0
    assert memfabric_hybrid.set_conf_store_tls(True, "tlsCaPath:/etc/ssl") != 0
    assert bm.initialize(free_url(), 2, 0, bm.BmConfig()) != 0, "no clear text after the setter has failed"
    assert memfabric_hybrid.create_config_store(free_url()) != 0
    assert memfabric_hybrid.set_conf_store_tls(False) == 0
    assert memfabric_hybrid.set_conf_store_tls_key("key", "word", lambda text: text) != 0
    assert memfabric_hybrid.set_conf_store_tls(False) == 0
    option = mf_smem.TlsOption()
    option.tls_ca_path = "/etc/ssl"
    assert mf_smem.set_ssl_option(option) == 0, "TLS isn't enabled"
    option.enable_tls = True
    assert mf_smem.set_ssl_option(option) != 0
    assert memfabric_hybrid.set_conf_store_tls(False) == 0
    assert memfabric_hybrid.create_config_store(free_url()) == 0
    memfabric_hybrid.uninitialize()


def test_memfabric_names_of_the_first_release():
    import mf_smem.bm  # pylint: disable=import-outside-toplevel
    from mf_smem import shm as first  # pylint: disable=import-outside-toplevel
    assert mf_smem.bm.BmCopyType is bm.BmCopyType and first.ShmConfig is shm.ShmConfig and bm.BmDataOpType.ROCE == 2
    assert mf_smem.initialize() == 0 and mf_smem.set_log_level(2) == 0
    config = mf_smem.bm.BmConfig()
    config.rank_id, config.hcom_url, config.flags = 0, "tcp://127.0.0.1:10005", 2
    assert config.hcom_url == "tcp://127.0.0.1:10005"
    assert mf_smem.bm.initialize(free_url(), 1, 0, config) == 0 and mf_smem.bm.bm_rank_id() == 0
    pool = mf_smem.bm.create(id=0, local_dram_size=0, local_hbm_size=2 * MiB)
    address = pool.join()
    assert address == pool.peer_rank_ptr(0) != 0 and pool.local_mem_size() == 2 * MiB
    mine, back = np.arange(100, dtype=np.int64), np.zeros(100, np.int64)
    assert pool.copy_data(mine.ctypes.data, address, mine.nbytes, mf_smem.bm.BmCopyType.H2G) is None
    params = mf_smem.bm.CopyData2DParams()
    params.src, params.spitch, params.dest, params.dpitch, params.width, params.height = address, 80, back.ctypes.data, 80, 40, 10
    assert pool.copy_data_2d(params, mf_smem.bm.BmCopyType.G2H) is None
    assert np.array_equal(back.reshape(10, 10)[:, :5], mine.reshape(10, 10)[:, :5]) and not back.reshape(10, 10)[:, 5:].any()
    for call in (lambda: pool.peer_rank_ptr(1), lambda: pool.copy_data(0, address, 8, mf_smem.bm.BmCopyType.H2G)):
        try:
            call()
        except RuntimeError as error:
            assert str(error) == mf_smem.get_last_err_msg()
        else:
            raise AssertionError("the first release raises")
    assert pool.leave() is None
    pool.destroy()
    mf_smem.uninitialize()


def test_memfabric_names_of_the_adapter():
    import mf_adapter  # pylint: disable=import-outside-toplevel
    assert sorted(mf_adapter.__all__) == ["TransferEngine", "create_config_store", "set_conf_store_tls", "set_log_level"]
    url = free_url()
    assert mf_adapter.set_conf_store_tls(False, "") == 0 and mf_adapter.create_config_store(url) == 0
    engine = mf_adapter.TransferEngine()
    assert engine.initialize(url, "127.0.0.1:7001", "Decoder", 0) == -1
    assert engine.initialize(url, "127.0.0.1:7001", "Decode", 0, engine.TransDataOpType.SDMA) == 0
    memory = np.zeros(64, np.uint8)
    assert engine.register_memory(memory.ctypes.data, 64) == 0
    assert engine.transfer_sync_write("127.0.0.1:7001", memory.ctypes.data, memory.ctypes.data, 64, flags=2) == 0
    assert engine.transfer_sync_write("127.0.0.1:7001", memory.ctypes.data, memory.ctypes.data, 64, flags=1) == -2000
    assert engine.batch_transfer_sync_write("127.0.0.1:7001", [memory.ctypes.data], [], [64]) == -1
    engine.destroy()
    memfabric_hybrid.uninitialize()


def test_memfabric_copies_reach_the_owner():
    program = """
        pool = pool_of()
        for part in (HOST, DEVICE):
            assert pool.local_mem_size(part) == 4 * MiB
            assert pool.get_rank_id_by_gva(pool.peer_rank_ptr(after, part) + 4 * MiB - 1) == after
        mine, back = array(rank), np.zeros(1000, np.int64)
        address, n = mine.ctypes.data, mine.nbytes
        assert pool.register(address, n) == 0 and pool.register(address, n) == 0 and pool.register(address, 8) == -2000
        def copy(*arguments):
            assert pool.copy_data(*arguments) == 0, get_last_err_msg()
        copy(address, pool.peer_rank_ptr(after, HOST), n, bm.BmCopyType.H2GH)
        copy(address, pool.peer_rank_ptr(after, DEVICE), n, bm.BmCopyType.H2G)
        copy(address, pool.peer_rank_ptr(after, HOST) + MiB, n, bm.BmCopyType.AUTO, bm.ASYNC_COPY_FLAG)
        assert pool.wait() == 0
        halves = [address, address + n // 2], [pool.peer_rank_ptr(after, HOST) + 2 * MiB, pool.peer_rank_ptr(after, DEVICE) + MiB]
        assert pool.copy_data_batch(*halves, [n // 2, n // 2], 2, bm.BmCopyType.AUTO, 0) == 0
        pool.copy_data_2d(address, 80, pool.peer_rank_ptr(after, HOST) + 3 * MiB, 40, 40, 100, bm.BmCopyType.H2G)
        pool.barrier(size)
        expected = array(before)
        def own(part, offset=0, count=1000):
            values = np.zeros(count, np.int64)
            copy(pool.peer_rank_ptr(rank, part) + offset, values.ctypes.data, values.nbytes, bm.BmCopyType.AUTO)
            return values
        for values in (own(HOST), own(DEVICE), own(HOST, MiB)):
            assert np.array_equal(values, expected)
        assert np.array_equal(own(HOST, 2 * MiB, 500), expected[:500]) and np.array_equal(own(DEVICE, MiB, 500), expected[500:])
        assert np.array_equal(own(HOST, 3 * MiB, 500), expected.reshape(100, 10)[:, :5].ravel())
        copy(pool.peer_rank_ptr(after, DEVICE), back.ctypes.data, n, bm.BmCopyType.G2H)
        assert np.array_equal(back, mine)
        assert pool.copy_data(address, back.ctypes.data, n, bm.BmCopyType.H2G) == -2000
        assert pool.peer_rank_ptr(size, HOST) == 0 and pool.gva_to_va(back.ctypes.data) == 0
        own_host = pool.gva_to_va(pool.peer_rank_ptr(rank, HOST) + 8)
        assert ctypes.c_int64.from_address(own_host).value == expected[1]
        assert pool.copy_data_batch([address], [back.ctypes.data], [n], 1, bm.BmCopyType.AUTO, 0) == -2000
        assert pool.counter("copy_batch")["pieces"] == 2 and ": " in pool.path(after, HOST)
        assert pool.unregister(address) == 0
        pool.barrier(size)
        events, left = [], threading.Event()
        if rank == 0:
            pool.set_group_event_handler(lambda other, event: (events.append((other, event)), len(events) == size - 1 and left.set()))
        pool.barrier(size)
        if rank == 0:
            assert left.wait(60)
            assert sorted(events) == [(other, bm.BmGroupEvent.LEAVE_EVENT) for other in range(1, size)], events
        assert pool.leave() == 0
        pool.destroy()
        memfabric_hybrid.uninitialize()
    """
    for ranks, options in ((2, ()), (3, ()), (2, ("--nodes", "2"))):
        run(ranks, program, *options)
    cuda = os.environ.get("HMC_TEST_CUDA_LIBRARY")
    if cuda:
        run(2, program, environment={"HMC_CUDA_LIBRARY": cuda, "DEVICE": "0"})


def test_memfabric_control_operations():
    output = run(3, """
        memory = memory_of()
        assert (memory.local_rank, memory.rank_size) == (rank, size) and memory.query_support_data_operation() == 1
        assert memory.all_gather(bytes([rank] * 5)) == b"".join(bytes([r] * 5) for r in range(size))
        assert memory.set_context(b"context" * (rank + 1)) == 0
        memory.barrier()
        assert memory.context(after) == b"context" * (after + 1)
        mine, back = array(rank), np.zeros(1000, np.int64)
        memory.copy(mine.ctypes.data, memory.gva + after * 4 * MiB, mine.nbytes)
        memory.barrier()
        memory.copy(memory.gva + rank * 4 * MiB, back.ctypes.data, back.nbytes)
        assert np.array_equal(back, array(before))
        mask = ctypes.c_uint32()
        assert memory.topology_can_reach(after, mask) == 0 and mask.value == memory.reach_info(after) != 0
        assert memory.topology_can_reach(after, 0) == 0 and memory.topology_can_reach(size) == -2000
        assert memory.ptr(rank) is not None
        pair = memory.subgroup_all_gather("pair", 2, rank, b"%d" % rank) if rank < 2 else b"01"
        assert pair == b"01"
        memory.subgroup_barrier("reverse", size, size - 1 - rank)
        number = memory.atomic_alloc_value(3)
        assert sorted(memory.all_gather(bytes([number]))) == [0, 1, 2]
        memory.barrier()
        memory.atomic_release_value(number)
        raises(lambda: memory.atomic_release_value(2000))
        raises(lambda: memory.set_context(bytes(65537)))
        called = threading.Event()
        statuses = []
        memory.register_exit(lambda status: (statuses.append(status), called.set()))
        memory.barrier()
        if rank == 1:
            memory.global_exit(7)
        assert called.wait(60) and statuses == [7]
        memory.barrier()
        memory.destroy()
        memfabric_hybrid.uninitialize()
        print("complete")
    """)
    assert output.count("complete") == 3


def test_memfabric_calls_release_the_gil():
    """While one thread waits in a barrier, another one of the same process computes, and lets the barrier end."""
    output = run(2, """
        memory = memory_of()
        pool = pool_of()
        def progresses(wait, release):
            thread = threading.Thread(target=wait)
            thread.start()
            counted = sum(1 for _ in range(200_000))
            release()
            thread.join(60)
            assert not thread.is_alive() and counted == 200_000
        if rank == 0:  # both members of the group are threads of this process: with the GIL held the first would never return
            progresses(lambda: memory.subgroup_barrier("threads", 2, 0), lambda: memory.subgroup_barrier("threads", 2, 1))
            progresses(lambda: memory.subgroup_all_gather("threads", 2, 0, b"a"),
                       lambda: memory.subgroup_all_gather("threads", 2, 1, b"b"))
        memory.barrier()
        pool.barrier(size)
        memfabric_hybrid.uninitialize()
        print("complete")
    """)
    assert output.count("complete") == 2


def test_memfabric_transfer_engines():
    output = run(2, """
        memory = memory_of(2 * MiB)
        engine = TransferEngine()
        names = [f"127.0.0.1:{7001 + r}" for r in range(size)]
        start = time.monotonic()
        assert engine.initialize("hmc://", names[rank], ("Prefill", "Decode")[rank], 0) == 0, get_last_err_msg()
        assert time.monotonic() - start < 9, "initialize doesn't sleep"
        assert engine.get_rpc_port() == engine.get_rpc_port() > 0
        cache, local = np.zeros(1 << 20, np.float16), (np.arange(1 << 20) % 1000 + rank).astype(np.float16)
        address, n = cache.ctypes.data, cache.nbytes
        assert engine.batch_register_memory([address, address + n // 2], [n // 2, n // 2]) == 0
        peer = int.from_bytes(memory.all_gather(address.to_bytes(8, "little"))[8 * after:8 * after + 8], "little")
        assert engine.transfer_sync_write(names[after], local.ctypes.data, peer, n) == 0, get_last_err_msg()
        memory.barrier()
        assert np.array_equal(cache, (np.arange(1 << 20) % 1000 + after).astype(np.float16))
        back = np.zeros_like(cache)
        quarter = n // 4
        offsets = [0, quarter, 2 * quarter, 3 * quarter]
        assert engine.batch_transfer_sync_read(names[after], [back.ctypes.data + i for i in reversed(offsets)],
                                               [peer + i for i in reversed(offsets)], [quarter] * 4) == 0
        assert np.array_equal(back, local)
        assert engine.transfer_async_read_submit(names[after], back.ctypes.data, peer, n, None) == 0
        assert engine.transfer_sync_write(names[after], local.ctypes.data, peer + 2, n) == -2000
        assert engine.transfer_sync_write("127.0.0.1:9", local.ctypes.data, peer, n) == -2007
        memory.barrier()
        assert engine.unregister_memory(address) == 0
        memory.barrier()
        assert engine.transfer_sync_read(names[after], back.ctypes.data, peer, 2) == -2000
        down, called = [], threading.Event()
        assert engine.set_peer_down_callback(lambda name: (down.append(name), called.set())) == 0
        memory.barrier()
        if rank == 0:
            assert called.wait(60) and down == [names[1]]
        engine.destroy()
        engine.unInitialize()
        memfabric_hybrid.uninitialize()
        print("complete")
    """)
    assert output.count("complete") == 2


def test_memfabric_store_in_a_process_of_its_own():
    command = [sys.executable, "-m", "memfabric_hybrid.launch_ascend_mf_store"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                             env={name: value for name, value in os.environ.items() if name != "MF_CONFIG_STORE_URL"})
    assert refused.returncode != 0 and "MF_CONFIG_STORE_URL" in refused.stderr
    url = free_url()
    with subprocess.Popen(command, env={**os.environ, "MF_CONFIG_STORE_URL": url}) as store:
        config = bm.BmConfig()
        config.start_store, config.rank_id = False, 1
        assert bm.initialize(url, 2, 0, config) == 0, memfabric_hybrid.get_last_err_msg()
        assert bm.bm_rank_id() == 1
        memfabric_hybrid.uninitialize()
        store.terminate()
        assert store.wait(60) == 0


def example(name, *arguments_of_each):
    """Runs a program without a launcher: one process per list of arguments."""
    path, url = os.path.join(EXAMPLES, name), free_url()
    processes = [subprocess.Popen([sys.executable, path, url, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for arguments in arguments_of_each]
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output


def by_hmcrun(name, ranks, *options):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        job(ranks, file.read(), *options, status=0)


def test_memfabric_example_of_a_pool():
    for options in ((), ("--nodes", "2")):
        by_hmcrun("memory_pool.py", 3, *options)
    example("memory_pool.py", ["3"], ["3"], ["3"])


def test_memfabric_example_of_shared_memory():
    for options in ((), ("--nodes", "2")):
        by_hmcrun("shared_memory.py", 3, *options)
    example("shared_memory.py", ["3", "0"], ["3", "1"], ["3", "2"])


def test_memfabric_example_of_a_cache():
    for options in ((), ("--nodes", "2")):
        by_hmcrun("kv_cache.py", 2, *options)
    example("kv_cache.py", ["prefill"], ["decode"])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
