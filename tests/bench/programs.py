"""The programs, and how a test runs them."""
import os
import subprocess
from pathlib import Path

BIN = Path(os.environ["HMC_BIN"])
TIMEOUT_S = 60

BANDWIDTH = ["put_bw", "get_bw", "put_bibw", "put_mr"]
LATENCY = ["put_latency", "get_latency", "put_signal_latency"]
TRANSFERS = LATENCY + BANDWIDTH
SIZED_COLLECTIVES = ["broadcast", "allgather", "allreduce"]
COLLECTIVES = ["barrier"] + SIZED_COLLECTIVES
SIZED = TRANSFERS + SIZED_COLLECTIVES
MEASURING = SIZED + ["barrier", "atomics"]
STARTING = ["hello", "init"]

SHORT = ["-i", "4", "-x", "1"]
# What the first number of a row is called.
MAIN = {
    **{name: "Latency (us)" for name in LATENCY + ["atomics"]},
    **{name: "Bandwidth (MB/s)" for name in BANDWIDTH},
    **{name: "Avg Latency(us)" for name in COLLECTIVES},
    "put_mr": "MB/s",
}


def program(name):
    return str(BIN / "bench" / f"hmc_{name}")


def launch(name, *args, ranks=2, nodes=1):
    """The finished process."""
    command = [str(BIN / "hmcrun"), "-np", str(ranks), "--nodes", str(nodes), "--timeout", str(TIMEOUT_S - 10)]
    return subprocess.run([*command, program(name), *map(str, args)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, check=False)


def output(name, *args, ranks=2, nodes=1):
    """stdout of a run that must succeed and say nothing on stderr."""
    done = launch(name, *args, ranks=ranks, nodes=nodes)
    assert done.returncode == 0 and done.stderr == "", (name, args, done.returncode, done.stdout, done.stderr)
    return done.stdout
