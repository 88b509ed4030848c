"""The facts of the machine on which the numbers were measured."""

import os
import platform
import re


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _first(pattern, text, otherwise):
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() if found else otherwise


def cores(allowed=None, siblings=None):
    """The CPUs for binding: the first allowed hardware thread of each core that this process may use."""
    allowed = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    siblings = siblings or (lambda cpu: _text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
    seen, out = set(), []
    for cpu in allowed:
        core = siblings(cpu).strip() or str(cpu)
        if core not in seen:
            seen.add(core)
            out.append(cpu)
    return out


def facts():
    cpu = _text("/proc/cpuinfo")
    thp = "/sys/kernel/mm/transparent_hugepage/"
    return {
        "cpu": _first(r"^model name\s*:\s*(.*)$", cpu, platform.machine()),
        "cores": len(cores()),
        "threads": len(os.sched_getaffinity(0)),
        "virtual": " hypervisor" in cpu,
        "memory_gib": round(int(_first(r"^MemTotal:\s+(\d+)", _text("/proc/meminfo"), "0")) / 2**20, 1),
        "kernel": platform.release(),
        "system": _first(r'^PRETTY_NAME="?([^"\n]*)', _text("/etc/os-release"), platform.system()),
        "huge_pages": _first(r"\[(\w+)\]", _text(thp + "enabled"), "unknown"),
        "shared_huge_pages": _first(r"\[(\w+)\]", _text(thp + "shmem_enabled"), "unknown"),
    }


def load():
    return os.getloadavg()[0]


def cpu_times():
    """Jiffies since boot: (all, idle, steal)."""
    line = _first(r"^cpu\s+(.*)$", _text("/proc/stat"), "0 0 0 0 0 0 0 0")
    numbers = [int(word) for word in line.split()][:8]
    return sum(numbers), numbers[3] + numbers[4], numbers[7]


def steal_share(before, after):
    """The share of time between two cpu_times() that the hypervisor took."""
    elapsed = after[0] - before[0]
    return (after[2] - before[2]) / elapsed if elapsed > 0 else 0.0

