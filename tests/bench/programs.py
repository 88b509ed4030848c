"""The programs, their flags, and functions that run them."""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from side_by_side import main  # noqa: E402, F401

BIN = Path(os.environ["HMC_BIN"])
TIMEOUT_S = 60

BANDWIDTH = ["put_bw", "get_bw", "put_bibw", "get_bibw", "put_mr", "get_mr", "bw", "bibw", "mbw_mr"]
MESSAGE_RATE = ["put_mr", "get_mr", "mbw_mr"]
ACCUMULATE = ["acc_latency", "get_acc_latency"]
LATENCY = ["put_latency", "get_latency", "put_signal_latency", "put_multi_lat", "get_multi_lat", "latency",
           *ACCUMULATE]
TRANSFERS = LATENCY + BANDWIDTH
SINGLE_ATOMICS = ["fop_latency", "cas_latency"]
ATOMICS = ["atomics", *SINGLE_ATOMICS]

MOVING = ["broadcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv"]
REDUCING = ["reduce", "allreduce", "reduce_scatter", "reduce_scatterv", "scan", "exscan"]
BLOCKING = ["barrier", *MOVING, *REDUCING]


def non_blocking(names):
    return ["i" + name for name in names]


def both_forms(names):
    return names + non_blocking(names)


NON_BLOCKING = non_blocking(BLOCKING)
COLLECTIVES = both_forms(BLOCKING)
BARRIERS = both_forms(["barrier"])
REDUCTIONS = both_forms(REDUCING)
SIZED_COLLECTIVES = both_forms(MOVING + REDUCING)
IN_PLACE = [name for name in SIZED_COLLECTIVES if name not in both_forms(["broadcast"])]

SIZED = TRANSFERS + SIZED_COLLECTIVES
MEASURING = TRANSFERS + ATOMICS + COLLECTIVES
STARTING = ["hello", "init"]
ALL = MEASURING + STARTING

SHORT = ["-i", "4", "-x", "1"]
# The title of a row's first number.
MAIN = {
    **{name: "Latency (us)" for name in LATENCY + ATOMICS},
    **{name: "Bandwidth (MB/s)" for name in BANDWIDTH},
    **{name: "MB/s" for name in MESSAGE_RATE},
    **{name: "Avg Latency(us)" for name in BLOCKING},
    **{name: "Overall(us)" for name in NON_BLOCKING},
}


def listed():
    """The programs in the executable."""
    words = subprocess.run([BIN / "bench" / "hmc_osu", "--list"], capture_output=True, text=True, check=True).stdout.split()
    return [word.removeprefix("hmc_") for word in words]


def linked():
    """The programs that can be started by name."""
    links = [path for path in (BIN / "bench").iterdir() if path.is_symlink() and path.readlink() == Path("hmc_osu")]
    return [path.name.removeprefix("hmc_") for path in links]


def flags_of(name):
    flags = {"-h", "--help", "-v", "--version", "--json", "--csv"}
    if name in MEASURING:
        flags |= {"-i", "--iterations", "-x", "--warmup", "-f", "--full", "-c", "--validation", "-z", "--tail-lat"}
    if name in SIZED:
        flags |= {"-m", "--message-size", "-b", "--buffers", "--fresh"}
    if name in BANDWIDTH:
        flags |= {"-W", "--window-size"}
    if name in IN_PLACE:
        flags |= {"-l", "--in-place"}
    if name in REDUCTIONS + ATOMICS:
        flags |= {"-t", "--dtype"}
    if name in REDUCTIONS + ["atomics", "fop_latency"]:
        flags |= {"-o", "--operation"}
    return flags


def program(name):
    return str(BIN / "bench" / f"hmc_{name}")


def command(name, *args, ranks=2, nodes=1, launcher=(), before=()):
    """`launcher`: options of hmcrun; `before`: arguments before each rank's program."""
    words = [str(BIN / "hmcrun"), "-np", str(ranks), "--nodes", str(nodes), "--timeout", str(TIMEOUT_S - 10), *launcher]
    return [*words, *before, program(name), *map(str, args)]


def launch(name, *args, **layout):
    """The finished process."""
    return subprocess.run(command(name, *args, **layout), capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, check=False)


def output(name, *args, **layout):
    """stdout of a run that must succeed and print nothing on stderr."""
    done = launch(name, *args, **layout)
    assert done.returncode == 0 and done.stderr == "", (name, args, done.returncode, done.stdout, done.stderr)
    return done.stdout


def alone(name, *args):
    """stdout of a single rank without hmcrun."""
    return subprocess.run([program(name), *args], capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
                          stdin=subprocess.DEVNULL).stdout
