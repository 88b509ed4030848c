"""Who takes part: how each is started, and why one can't be."""

import os
import shutil
import subprocess


class Contestant:
    """`kind`: hmc, peer or floor. `buffers`: window or private."""

    def __init__(self, name, label, kind, program, buffers="private", launcher=None, package=None):
        self.name = name
        self.label = label
        self.kind = kind
        self.program = program
        self.buffers = buffers
        self.launcher = launcher  # a path, a word of $PATH, or None: it starts its own ranks
        self.package = package
        self.version = ""
        self.settings = {}  # by layout, as the program told

    def missing(self):
        """Why it can't run here; empty when it can."""
        if self.launcher and not shutil.which(self.launcher):
            return self._advice(f"{os.path.basename(self.launcher)} isn't here")
        if not os.access(self.program, os.X_OK):
            return self._advice(f"{os.path.basename(self.program)} wasn't built")
        return ""

    def _advice(self, what):
        return f"{what}; Debian has it in {self.package}; then run cmake again" if self.package else what

    def command(self, layout, words, cpus=()):
        """`words`: what the program is given. Rank r binds itself to the r-th of `cpus`, round and round, before it
        starts its library: the launchers' own ideas of a core differ. No `cpus`: no rank is bound."""
        program = [self.program, f"--name={self.name}", *words]
        if self.buffers == "window":
            program.append("--window")
        if cpus:
            program.append("--cpus=" + ",".join(map(str, cpus)))
        return self._start(layout) + program + ([] if self.launcher else [f"--np={layout['np']}"])

    def _start(self, layout):
        return []

    def settings_in(self, layout):
        """What it is given in this layout beyond its defaults, for the report."""
        return ""


class Hmc(Contestant):
    def _start(self, layout):
        nodes = ["--nodes", str(layout["nodes"])] if layout["nodes"] > 1 else []
        return [self.launcher, "-np", str(layout["np"]), *nodes, "--bind-to", "none"]

    def settings_in(self, layout):
        if layout["nodes"] == 1:
            return ""
        if os.environ.get("HMC_TRANSPORT") != "ucx":
            return "TCP sockets of its own, with reno in place of bbr on loopback"
        tls = os.environ.get("UCX_TLS", "^sm (HMC's default on one machine)")
        return f"UCX {package_version('libucx0') or 'of unknown version'}; UCX_TLS={tls}"


class OpenMpi(Contestant):
    # Every other osc of it goes around the btl, through memory that the ranks share.
    network = (("pml", "ob1"), ("btl", "tcp,self"), ("btl_tcp_if_include", "lo"), ("osc", "pt2pt"))

    def _start(self, layout):
        words = [self.launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        if layout["nodes"] > 1:
            for name, value in self.network:
                words += ["--mca", name, value]
        return words + ["-np", str(layout["np"])]

    def settings_in(self, layout):
        given = [f"{name}={value}" for name, value in self.network] if layout["nodes"] > 1 else ["default transports"]
        return " ".join(given) + "; --oversubscribe"


class Mpich(Contestant):
    # Without cliques its ranks share memory whatever UCX is told.
    network = (("UCX_TLS", "tcp,self"), ("MPIR_CVAR_NUM_CLIQUES", "2"), ("MPIR_CVAR_CLIQUES_BY_BLOCK", "1"))

    def _start(self, layout):
        words = [self.launcher, "-np", str(layout["np"]), "-bind-to", "none"]
        if layout["nodes"] > 1:
            for name, value in self.network:
                words += ["-env", name, value]
        return words

    def settings_in(self, layout):
        ucx = f"UCX {package_version('libucx0') or 'of unknown version'}"
        given = [f"{name}={value}" for name, value in self.network] if layout["nodes"] > 1 else ["default transports"]
        return " ".join(given) + "; " + ucx


def everyone(build):
    """In the order of tables and legends."""
    programs = os.path.join(build, "bin", "bench", "compare")

    def program(name):
        return os.path.join(programs, name)

    hmcrun = os.path.join(build, "bin", "hmcrun")
    return [
        Contestant("floor-window", "bare loop, shared buffers", "floor", program("floor"), "window"),
        Contestant("floor-private", "bare loop, private buffers", "floor", program("floor")),
        Contestant("floor-tcp", "bare loop over TCP", "floor", program("floor_tcp")),
        Hmc("hmc-window", "HMC, window buffers", "hmc", program("hmc"), "window", hmcrun),
        Hmc("hmc-private", "HMC, private buffers", "hmc", program("hmc"), "private", hmcrun),
        OpenMpi("openmpi", "Open MPI", "peer", program("openmpi"), launcher="mpirun.openmpi",
                package="openmpi-bin libopenmpi-dev"),
        Mpich("mpich", "MPICH", "peer", program("mpich"), launcher="mpirun.mpich", package="mpich libmpich-dev"),
        Contestant("gloo", "Gloo", "peer", program("gloo"), package="libgloo-dev"),
    ]


def floor_of(hmc_name, layout):
    """The bare loop that this one is held against."""
    return "floor-tcp" if layout["nodes"] > 1 else hmc_name.replace("hmc-", "floor-")


def package_version(name):
    """What Debian calls the installed version; empty elsewhere."""
    try:
        told = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True, timeout=10,
                              check=False)
    except OSError:
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""
