"""Compiles the adapter for the installed torch, once: the result is cached by torch, Python, libhmc and sources."""

import fcntl
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time

_package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_folder = os.path.join(_package, "torch", "adapter")
_torch_sources = ("module.cpp", "backend.cpp", "messages.cpp", "windows.cpp", "backend.hpp", "work.hpp", "tensors.hpp", "device.hpp")
_plain_sources = ("group.cpp", "group_messages.cpp", "group_windows.cpp", "group.hpp", "group_state.hpp")


class BuildError(RuntimeError):
    """The adapter can't be compiled on this machine."""


@functools.lru_cache(maxsize=None)
def warn_once(text):
    """On one rank of a node."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"hmc.torch: {text}", file=sys.stderr, flush=True)


def _library():
    """libhmc of this package: the one that hmc._core uses."""
    folder = os.environ.get("HMC_TORCH_LIB") or os.path.join(_package, "lib")
    names = sorted(name for name in os.listdir(folder) if name.startswith("libhmc") and ".so" in name)
    if not names:
        raise BuildError(f"{folder} has no libhmc.so")
    return os.path.join(folder, names[0])


def _compiler():
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["g++", "c++", "clang++"]:
        path = shutil.which(shlex.split(name)[0])
        if path:
            return [path, *shlex.split(name)[1:]]
    raise BuildError(f"no C++20 compiler: {wanted or 'g++, c++ and clang++'} not found; install g++ 11 or newer, or set CXX")


def _folders():
    """Where an adapter may be."""
    folders = [os.environ.get("HMC_TORCH_CACHE"),
               os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hmc", "torch"),
               os.path.join(tempfile.gettempdir(), f"hmc-torch-{os.getuid()}")]
    return [each for each in folders if each]


def _is_safe(path):
    """Only this user or root may write there: the process executes what it finds."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_uid in (0, os.getuid()) and not stat.S_ISLNK(found.st_mode) and not found.st_mode & 0o022


def _is_usable(folder, name):
    """For an adapter that is there, also in a folder that can't be written to, or for one to compile."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return False
    path = os.path.join(folder, name)  # another process may write it between two looks: absent first
    return _is_safe(folder) and ((not os.path.lexists(path) and os.access(folder, os.W_OK)) or _is_safe(path))


def _place(name):
    """The path of the adapter."""
    for folder in _folders():
        if _is_usable(os.path.realpath(folder), name):
            return os.path.join(os.path.realpath(folder), name)
        if folder == os.environ.get("HMC_TORCH_CACHE"):
            warn_once(f"HMC_TORCH_CACHE={folder} isn't used: it can't be written to, or others may write to it or to its {name}")
    raise BuildError(f"no folder to write the compiled adapter to: tried {', '.join(_folders())}, which this user must own and "
                     "others must not write to; set HMC_TORCH_CACHE")


def _remove_old(folder):
    """What nothing has used for some months: adapters of other releases, and what killed compilers left. Not where other users,
    whose use isn't noted, may read."""
    if os.stat(folder).st_mode & 0o077:
        return
    for each in os.scandir(folder):
        try:
            age_s = time.time() - each.stat(follow_symlinks=False).st_mtime
            if not each.name.startswith(("adapter-", "compile-")) or age_s < 90 * 86400:
                continue
            if each.is_dir(follow_symlinks=False):
                shutil.rmtree(each.path)
            else:
                os.unlink(each.path)
        except OSError:
            pass  # another process does the same


def _cxx_library():
    """The C++ library that torch has loaded. Two of them in one process crash, and some compilers link a static one."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted({line.split(maxsplit=5)[5].strip() for line in maps if "/libstdc++.so" in line})[:1]


def _commands(compiler, target):
    """The compile commands and the link command. Only the first includes torch."""
    import torch

    python_headers = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python_headers, "Python.h")):
        raise BuildError(f"Python's headers aren't in {python_headers}; install python3-dev")
    folder = os.path.dirname(os.path.abspath(torch.__file__))
    torch_headers = [os.path.join(folder, "include"), os.path.join(folder, "include/torch/csrc/api/include")]
    if not any(os.path.exists(os.path.join(each, "torch", "csrc", "distributed", "c10d", "Work.hpp")) for each in torch_headers):
        raise BuildError(f"torch's headers aren't in {torch_headers[0]}; with Debian's torch install libtorch-dev")
    bundled = os.path.join(torch_headers[0], "pybind11")
    if not os.path.exists(bundled) and not os.path.exists("/usr/include/pybind11"):
        raise BuildError("pybind11's headers are missing; with Debian's torch install pybind11-dev")
    defines = []
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value:
            defines.append(f'-DPYBIND11_{name}="{value}"')
    include = os.environ.get("HMC_TORCH_INCLUDE") or os.path.join(_package, "include")
    common = [*compiler, "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-c", f"-I{include}"]
    with_torch = [*common, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", "-DHMC_TORCH_MODULE=_adapter",
                  *defines, f"-I{python_headers}",
                  *(part for each in torch_headers for part in ("-isystem", each)),
                  os.path.join(_folder, "module.cpp"), "-o", os.path.join(target, "module.o")]
    plain = [[*common, os.path.join(_folder, f"{name}.cpp"), "-o", os.path.join(target, f"{name}.o")]
             for name in ("group", "group_messages", "group_windows")]
    compiles = [with_torch, *plain]
    library = _library()
    link = [*compiler, "-shared", *(each[-1] for each in compiles), "-o", os.path.join(target, "_adapter.so"), library,
            *_cxx_library(), f"-Wl,-rpath,{os.path.dirname(library)}", f"-L{os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), 'lib')}",
            "-ltorch_python", "-ltorch_cpu", "-lc10", "-pthread"]
    return compiles, link


def _key():
    """Without the compiler: an adapter that is there needs none."""
    import torch

    parts = [torch.__version__, str(torch.version.git_version), os.path.dirname(torch.__file__), sys.implementation.cache_tag,
             sysconfig.get_config_var("SOABI") or "", _library()]
    with open(_library(), "rb") as file:  # not its time, which copies of an installation change
        parts.append(hashlib.sha256(file.read()).hexdigest())
    for name in (*_torch_sources, *_plain_sources):
        with open(os.path.join(_folder, name), encoding="utf-8") as file:
            parts.append(file.read())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _run(commands):
    """At the same time. BuildError with the output of the first that fails."""
    started = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for each in commands]
    outputs = [each.communicate()[0] for each in started]
    for command, process, output in zip(commands, started, outputs):
        if process.returncode != 0:
            raise BuildError(f"the adapter for torch can't be compiled:\n{shlex.join(command)}\n{output}")


def _compile(compiler, path):
    import torch

    start = time.monotonic()
    # One line, on the rank that compiles; the others wait for the lock.
    print(f"hmc.torch: compiling the adapter for torch {torch.__version__} (once, about 30 s)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="compile-", dir=os.path.dirname(path)) as target:
        commands, link = _commands(compiler, target)
        _run(commands)
        _run([link])
        os.chmod(os.path.join(target, "_adapter.so"), 0o755)
        os.rename(os.path.join(target, "_adapter.so"), path)
    print(f"hmc.torch: compiled in {time.monotonic() - start:.0f} s: {path}", file=sys.stderr, flush=True)


def path():
    """The compiled adapter; compiles it if necessary."""
    file = _place(f"adapter-{_key()}.so")
    if not os.path.exists(file):
        with open(file + ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(file):
                _compile(_compiler(), file)
        _remove_old(os.path.dirname(file))
    try:
        os.utime(file)  # in use
    except OSError:
        pass
    return file


def load():
    """The adapter's module. BuildError if it can't be compiled, read or loaded."""
    import torch  # noqa: F401: loads the libraries that the adapter needs

    try:
        file = path()
        loader = importlib.machinery.ExtensionFileLoader("hmc.torch._adapter", file)
        spec = importlib.util.spec_from_file_location("hmc.torch._adapter", file, loader=loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (OSError, ImportError) as error:
        raise BuildError(f"the adapter for torch can't be written or loaded: {error}") from error
    return module
