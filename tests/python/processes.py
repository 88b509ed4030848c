"""Tests that start programs and jobs: python processes.py NAME. Needs an environment with the installed package."""
import ast
import doctest
import gc
import importlib.util
import os
import pydoc
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

sys.dont_write_bytecode = True

import numpy as np

import hmc

hmcrun = os.path.join(os.path.dirname(sys.executable), "hmcrun")


def job(ranks, program, *options, status=None, environment=None):
    """Runs a program text on every rank; returns its output."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write("import os, signal, sys, time\nimport numpy as np\nimport hmc\n" + textwrap.dedent(program))
        file.flush()
        command = [hmcrun, "-np", str(ranks), "--timeout", "100", *options, sys.executable, file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "HMC_TIMEOUT_S": "60", **(environment or {})})
    output = done.stdout + done.stderr
    assert status is None or done.returncode == status, (done.returncode, output)
    return output


def test_examples_in_docstrings():
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner()
    tests = [test for module in (hmc, hmc.errors) for test in finder.find(module, module.__name__)]
    for name in hmc.__all__:  # the finder skips classes and functions of compiled modules
        thing = getattr(hmc, name)
        members = vars(thing).items() if isinstance(thing, type) and thing.__module__ == "hmc._core" else ()
        for path, each in [(name, thing), *((f"{name}.{member}", value) for member, value in members)]:
            if ">>>" in (each.__doc__ or "") and "_core" in str(thing):
                tests.append(doctest.DocTestParser().get_doctest(each.__doc__, {}, path, None, None))
    tests.append(doctest.DocTestParser().get_doctest(hmc.init.__doc__, {}, "init", None, None))
    tests = [test for test in tests if test.examples]
    for test in tests:
        runner.run(test)
    print(f"{runner.tries} examples in {sorted({test.name for test in tests})}")
    assert runner.failures == 0
    assert {"hmc", "Team", "Team.send", "Team.recv_object", "Window", "init"} <= {test.name for test in tests}


def test_help_is_readable():
    text = pydoc.render_doc(hmc, renderer=pydoc.plaintext)
    for part in ("hmcrun -np 4", "class Team", "class Window", "allreduce(", "class PeerFailed"):
        assert part in text, part


def test_stubs_and_marker():
    folder = os.path.dirname(hmc.__file__)
    assert os.path.exists(os.path.join(folder, "py.typed"))
    with open(os.path.join(folder, "_core.pyi"), encoding="utf-8") as file:
        stub = ast.parse(file.read())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    methods = {node.name for node in classes["Team"].body if isinstance(node, ast.FunctionDef)}
    assert {"allreduce", "iallreduce", "plan_allreduce", "broadcast_object", "isend", "iprobe"} <= methods
    assert {"Runtime", "Window", "Request", "Op"} <= set(classes)


def allocated():
    gc.collect()
    return sys.getallocatedblocks()


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def expect_error(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError("no error")


def expect_no_leaks(calls, held, settle, few=()):
    """Many calls of each kind leave no object, no reference to the objects in `held`, and less than 80 bytes each. `few`: the slow ones."""
    for name, call in calls.items():
        for _ in range(1000):
            call()
        settle()
        references, blocks = [sys.getrefcount(thing) for thing in held], allocated()
        memory = resident_kib()
        for _ in range(4000 if name in few else 20_000):
            call()
        settle()
        now = [sys.getrefcount(thing) for thing in held]
        assert now == references, (name, references, now)
        assert allocated() - blocks < 1000, (name, allocated() - blocks)  # caches of Python grow, but not with each call
        grown = resident_kib() - memory
        assert grown < 1536, (name, f"{grown} KiB")


def test_no_references_leak():
    with hmc.init() as rt, hmc.Window(rt.world, 4096) as win:
        a, b, c = np.zeros(8), np.zeros(8), bytearray(64)
        capsule = np.zeros(8).__dlpack__()
        calls = {
            "put": lambda: win.put(0, 0, a), "get": lambda: win.get(0, 0, c), "put of a capsule": lambda: win.put(0, 0, capsule),
            "allreduce": lambda: rt.world.allreduce(a, out=b, op=hmc.max), "allgather": lambda: rt.world.allgather(c),
            "iallreduce": lambda: rt.world.iallreduce(a, out=b).wait(), "put_nb": lambda: win.put_nb(0, 0, c).wait(),
            "dropped": lambda: rt.world.iallreduce(a), "view": lambda: win.array(8, float), "world": lambda: rt.world.rank,
            "atomic": lambda: win.fetch_add(0, 128, 10**12), "atomic in flight": lambda: win.swap_nb(0, 128, 10**12).wait(),
            "dropped atomic": lambda: win.fetch_add_nb(0, 128, 10**12),
            "error": lambda: expect_error((hmc.Error, ValueError), lambda: win.put(5, 0, a)),
            "wrong array": lambda: expect_error((hmc.Error, ValueError), lambda: win.put(0, 0, a[::2])),
        }

        def settle():
            """Completes dropped requests. The next request frees their arrays."""
            for _ in range(2):
                rt.world.iallreduce(np.zeros(1)).wait()
        expect_no_leaks(calls, (a, b, c, capsule, hmc.max, rt.world), settle, ("error", "wrong array"))


def interrupted(wait):
    """Sends Ctrl-C to this process in wait(). Returns the seconds from there to KeyboardInterrupt."""
    sent = []

    def send():
        time.sleep(0.05)  # so that the main thread waits; the test is right without that, too
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        wait()
    except KeyboardInterrupt:
        end = time.monotonic()
        sender.join()
        return end - sent[0]
    raise AssertionError("the wait has ended")


def test_ctrl_c_ends_every_wait():
    """Rank 1 takes no part: each of rank 0's waits lasts until Ctrl-C."""
    program = f"""
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        import threading
        import processes
        rt = hmc.init()
        win = hmc.Window(rt.world, 64)
        teams = [rt.world.duplicate() for _ in range(5)]
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
        other = rt.world.allgather_object(os.getpid())[1 - rt.rank]
        rt.world.barrier()
        if rt.rank == 0:
            a = np.zeros(8)
            waits = {{
                "wait_until": lambda: win.wait_until(0, ">=", 1),
                "barrier": lambda: teams[0].barrier(),
                "allreduce": lambda: teams[1].allreduce(a),
                "iallreduce": lambda: teams[2].iallreduce(a).wait(),
                "allreduce, large": lambda: teams[3].allreduce(np.zeros(10**6)),
                "Window": lambda: hmc.Window(rt.world, 64),
            }}
            for name, wait in waits.items():
                print(f"interrupted {{name}}: {{processes.interrupted(wait) * 1000:.0f}} ms", flush=True)
                win.put(0, 8, a[:1])  # the window is usable
            # A call that waits for another thread's call.
            threading.Thread(target=teams[4].barrier, daemon=True).start()
            def put():
                while True:
                    win.put(0, 8, a[:1])
            print(f"interrupted put: {{processes.interrupted(put) * 1000:.0f}} ms", flush=True)
            os.kill(other, signal.SIGUSR1)
            os._exit(0)
        signal.pause()
    """
    for nodes in ("1", "2"):
        output = job(2, program, "--nodes", nodes)
        print(output)
        assert output.count("interrupted") == 7, output
    # The start of a job whose other rank doesn't come.
    for rank in (0, 1):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            store = f"127.0.0.1:{free.getsockname()[1]}"
            if rank == 0:
                free.close()  # rank 0 listens there; for rank 1 the port stays taken, and refuses connections
            os.environ.update(HMC_RANK=str(rank), HMC_SIZE="2", HMC_STORE=store, HMC_SECRET="0123456789abcdef" * 4)
            print(f"interrupted init of rank {rank}: {interrupted(hmc.init) * 1000:.0f} ms")


def test_signal_handlers_run_in_waits():
    output = job(2, """
        rt = hmc.init()
        win = hmc.Window(rt.world, 64)
        def handler(*_):
            try:
                win.put(0, 8, b"12345678")
            except hmc.Error as error:
                print(error.code, flush=True)
                if other is not None:
                    os.kill(other, signal.SIGUSR2)  # rank 1 ends this rank's wait
        other = None
        signal.signal(signal.SIGUSR1, handler)
        ready = []
        signal.signal(signal.SIGUSR2, lambda *_: ready.append(1))
        other = rt.world.allgather_object(os.getpid())[1 - rt.rank]
        if rt.rank == 0:
            win.wait_until(0, ">=", 1)
        else:
            while not ready:
                os.kill(other, signal.SIGUSR1)
                time.sleep(0.05)
            win.set(0, 0, 1)
        win.close()
        rt.close()
    """, status=0)
    assert "in_progress" in output, output


def test_a_killed_rank_raises_peer_failed():
    for nodes in ("1", "3"):
        output = job(3, """
            rt = hmc.init()
            win = hmc.Window(rt.world, 64)
            if rt.rank == 2:
                for _ in range(2):  # the others have left all calls
                    rt.world.recv(bytearray(0))
                os.kill(os.getpid(), signal.SIGKILL)
            rt.world.send(b"", 2)
            for call in (lambda: rt.world.allreduce(np.zeros(4)), lambda: win.wait_until(0, ">=", 1)):
                try:
                    call()
                except hmc.PeerFailed as error:
                    print(f"<{error.code} {error.operation} {error.rank} {error.peer}>", flush=True)
            os._exit(0)
        """, "--nodes", nodes, "--keep-going")
        for rank in (0, 1):
            assert f"<peer_failed allreduce {rank} 2>" in output and f"<peer_failed wait_until {rank} 2>" in output, output


def test_shrink_removes_a_killed_rank():
    output = job(3, """
        rt = hmc.init()
        if rt.rank == 1:
            for _ in range(2):
                rt.world.recv(bytearray(0))
            os.kill(os.getpid(), signal.SIGKILL)
        rt.world.send(b"", 1)
        try:
            rt.world.barrier()
        except hmc.PeerFailed:
            pass
        world = rt.world.shrink()
        total = world.allreduce(np.array([1]))
        print(f"<{total[0]} of {world.size}, {rt.world.size}>", flush=True)
        rt.close()
    """, "--keep-going")
    assert output.count("<2 of 2, 2>") == 2, output


def test_an_exception_in_a_rank_ends_the_job():
    output = job(2, """
        with hmc.init() as rt, hmc.Window(rt.world, 64) as win:
            if rt.rank == 1:
                raise ValueError("on purpose")
            try:
                rt.world.barrier()
            except hmc.PeerFailed as error:
                print(f"<{error.peer}>", flush=True)
                raise
    """)
    assert "<1>" in output and "on purpose" in output, output


def test_a_mismatch_raises_mismatch():
    output = job(2, """
        rt = hmc.init()
        try:
            rt.world.allreduce(np.zeros(4 + rt.rank))
        except hmc.Mismatch as error:
            print(f"<{error.code} {error.operation}>", flush=True)
        os._exit(0)
    """)
    assert output.count("<mismatch allreduce>") == 2, output


def test_import_is_fast():
    fastest = min(float(subprocess.run(
        [sys.executable, "-c", "import time; b = time.perf_counter(); import hmc; print(time.perf_counter() - b)"],
        capture_output=True, text=True, check=True).stdout) for _ in range(5))
    modules = subprocess.run([sys.executable, "-c", "import sys, hmc; print(*sys.modules)"], capture_output=True, text=True,
                             check=True).stdout.split()
    print(f"import hmc: {fastest * 1000:.1f} ms")
    assert not {"numpy", "torch", "asyncio", "pickle"} & set(modules)


def test_commands():
    folder = os.path.dirname(sys.executable)

    def output(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    assert hmc.__version__ in output(os.path.join(folder, "hmcrun"), "--version")
    assert output(os.path.join(folder, "hmcinfo"))
    assert "hmc-sim" in output(os.path.join(folder, "hmc-sim"), "--help")
    names = output(os.path.join(os.path.dirname(hmc.__file__), "bin", "hmc_osu"), "--list").split()
    missing = [name for name in names if not os.path.exists(os.path.join(folder, name))]
    assert not missing, f"pyproject.toml lacks {missing}"
    assert "Latency" in output(os.path.join(folder, "hmcrun"), "-np", "2", os.path.join(folder, "hmc_allreduce"), "-i", "10", "-m", "8:8")
    with tempfile.TemporaryDirectory() as place:
        program = os.path.join(place, "program.py")
        with open(program, "w", encoding="ascii") as file:
            file.write("import sys, hmc\nwith hmc.init() as rt:\n    print(f'{rt.rank} {rt.size} {sys.argv[1:]}\\n', end='')\n")
        lines = output(sys.executable, "-m", "hmc.run", "-np", "2", program, "-np", "x").splitlines()
    assert sorted(line.split("] ")[-1] for line in lines) == ["0 2 ['-np', 'x']", "1 2 ['-np', 'x']"], lines


def test_the_commands_of_the_readme():
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "README.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Python\n")[1].split("\n## ")[0]
    before, program, after = section.replace("```python", "```").split("```")
    commands = [line.strip().split("  #")[0].strip() for line in (before + after).splitlines() if line.startswith("    ")]
    assert commands[0] == "./dev wheel" and len(commands) == 3, commands
    with tempfile.TemporaryDirectory() as home:
        with open(os.path.join(home, "ring.py"), "w", encoding="utf-8") as file:
            file.write(program)
        wheels = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "build", "wheel"))
        # The wheel of this Python, and numpy without the network.
        install = commands[1].replace("build/wheel/hmc-*.whl numpy", f"{wheels}/hmc-*-cp3{sys.version_info[1]}-*.whl")
        install = install.replace("-m venv", "-m venv --system-site-packages").replace("python3", sys.executable, 1)
        site = os.path.dirname(os.path.dirname(np.__file__))
        done = subprocess.run(["bash", "-euc", f"cd {home}\n{install}\nPYTHONPATH={site} {commands[2]}"], text=True, check=False,
                              capture_output=True, timeout=200, env={**os.environ, "HOME": home})
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("[3. 3. 3. 3.]") == 2, done.stdout


def test_library_needs_only_glibc():
    """The installed wheel: every ELF file finds its libraries in the package or in glibc and libgcc."""
    folder = os.path.dirname(hmc.__file__)
    site = os.path.dirname(folder)
    own = {name for place in (site,) for root, _, names in os.walk(place) if "hmc" in root for name in names}
    system = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", "libgcc_s.so", "libstdc++.so")
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            needed = [line.split("[")[1].rstrip("]") for line in
                      subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout.splitlines()
                      if "(NEEDED)" in line]
            foreign = [each for each in needed if each not in own and not each.startswith(system)]
            assert not foreign, (path, foreign)


def test_the_wheel_has_its_libraries_licences():
    """Of the libraries that auditwheel has added, and of those that are linked or compiled in."""
    folder = os.path.dirname(hmc.__file__)
    texts = {name.removesuffix(".txt"): open(os.path.join(folder, "licenses", name), encoding="utf-8").read()
             for name in os.listdir(os.path.join(folder, "licenses"))}
    assert texts.keys() >= {"fmt", "openssl", "cli11", "nlohmann-json", "nanobind"}, texts.keys()
    assert all("opyright" in text for text in texts.values())
    libraries = os.path.join(os.path.dirname(folder), "hmc.libs")
    added = {name.removeprefix("lib").split("-")[0].split(".")[0] for name in os.listdir(libraries)}
    assert added <= texts.keys(), (added, texts.keys())


if __name__ == "__main__":
    assert importlib.util.find_spec("hmc")
    globals()[sys.argv[1]]()
