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
# Without -l, -t and -o.
FURTHER = ["gather", "scatter", "alltoall", "reduce", "reduce_scatter", "scan", "exscan"]
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


def command(name, *args, ranks=2, nodes=1, launcher=(), before=()):
    """`launcher`: options of hmcrun; `before`: words before each rank's program."""
    words = [str(BIN / "hmcrun"), "-np", str(ranks), "--nodes", str(nodes), "--timeout", str(TIMEOUT_S - 10), *launcher]
    return [*words, *before, program(name), *map(str, args)]


def launch(name, *args, **layout):
    """The finished process."""
    return subprocess.run(command(name, *args, **layout), capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, check=False)


def output(name, *args, **layout):
    """stdout of a run that must succeed and say nothing on stderr."""
    done = launch(name, *args, **layout)
    assert done.returncode == 0 and done.stderr == "", (name, args, done.returncode, done.stdout, done.stderr)
    return done.stdout
