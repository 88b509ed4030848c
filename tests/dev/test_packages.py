"""How ./dev handles missing packages: as root, with sudo, and without either.

A copy of ./dev runs with only fakes of dpkg-query, apt-get, sudo and cmake, so nothing is installed or built.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = "bash env dirname nproc awk cat grep sed sort head mkdir chmod rm mktemp touch xargs".split()
NOBODY = 65534
HIP_HEADER = Path("/usr/include/hip/hip_runtime_api.h")

FAKES = {
    # A package is installed unless its name is a file in missing/.
    "dpkg-query": '[[ -e $FAKES/missing/${*: -1} ]] && exit 1; echo ii',
    # A name in unavailable/ makes a whole installation fail. A download needs the lists that `update` fetches.
    "apt-get": 'echo "$*" >>"$FAKES/apt"; [[ ! -e $FAKES/no_network ]] || exit 100\n'
               'case $1 in\n'
               '  update) : >"$FAKES/lists" ;;\n'
               '  download) [[ -e $FAKES/lists ]] || exit 100; : >"${*: -1}_1_amd64.deb" ;;\n'
               '  install) for word; do [[ ! -e $FAKES/unavailable/$word ]] || exit 100; done\n'
               '    for word; do rm -f "$FAKES/missing/$word"; done ;;\n'
               'esac',
    "dpkg-deb": 'mkdir -p usr/include/hip; [[ -e $FAKES/bad_package ]] || : >usr/include/hip/hip_runtime_api.h',
    "ctest": "exit 0",
    # Builds a program that prints a line, or fails as a compiler does.
    "cmake": '''echo "$*" >>"$FAKES/cmake"
[[ $1 == --build ]] || exit 0
if [[ -e $FAKES/broken ]]; then
  echo "progress 1/2 1.000 Building CXX object a/CMakeFiles/a.dir/a.cpp.o"
  echo "FAILED: a.cpp.o"
  echo "a.cpp:1:2: error: no"
  exit 1
fi
echo "progress 2/2 1.000 Linking CXX executable bin/hmcrun"
mkdir -p build/bin
echo 'echo "the ranks run: $*"; echo /proc/$$/fd/* >$FAKES/descriptors' >build/bin/hmcrun
chmod +x build/bin/hmcrun''',
}
SUDO_THAT_WORKS = '[[ $1 != -n ]] || shift; exec "$@"'
SUDO_THAT_REFUSES = 'echo "sudo: a password is required" >&2; exit 1'


# tests/vm/prepare, which downloads the guest's kernel.
PREPARE = '''#!/usr/bin/env bash
[[ -e $FAKES/lists && ! -e $FAKES/no_network ]] || { echo "apt-get can't download it" >&2; exit 1; }
mkdir -p "$1"; echo kernel >"$1/initramfs"
'''


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = Path(self.folder.name)
        self.fakes = self.tree / "fakes"
        for folder in (self.tree / "cmake", self.fakes / "bin", self.fakes / "missing", self.fakes / "unavailable"):
            folder.mkdir(parents=True)
        for file in ("dev", "cmake/progress"):
            shutil.copy(ROOT / file, self.tree / file)
        (self.tree / "tests" / "vm").mkdir(parents=True)
        prepare = self.tree / "tests" / "vm" / "prepare"
        prepare.write_text(PREPARE)
        prepare.chmod(0o755)
        for tool in TOOLS:
            (self.fakes / "bin" / tool).symlink_to(shutil.which(tool))
        for name, text in FAKES.items():
            self.fake(name, text)
        for folder in (self.tree, self.fakes, self.fakes / "missing"):
            folder.chmod(0o777)

    def fake(self, name, text):
        path = self.fakes / "bin" / name
        path.write_text("#!/usr/bin/env bash\n" + text + "\n")
        path.chmod(0o755)

    def lose(self, *packages):
        for package in packages:
            (self.fakes / "missing" / package).touch()

    def dev(self, *words, as_root=False, **environment):
        if as_root and os.geteuid() != 0:
            self.skipTest("needs root")
        drop = []
        if not as_root and os.geteuid() == 0:
            drop = [shutil.which("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        done = subprocess.run([*drop, self.tree / "dev", *words], check=False, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, env={"PATH": str(self.fakes / "bin"), "FAKES": str(self.fakes), **environment})
        return done.returncode, done.stdout, done.stderr

    def written(self, name):
        path = self.fakes / name
        return path.read_text() if path.exists() else ""

    def test_is_silent_if_no_package_is_missing(self):
        status, out, err = self.dev("run")
        self.assertEqual((status, out), (0, "the ranks run: -np 4 build/bin/examples/03_allreduce\n"))
        self.assertNotIn("missing", err)
        self.assertEqual(self.written("apt"), "")

    def test_ranks_inherit_no_descriptor(self):
        self.assertEqual(self.dev("run")[0], 0)
        inherited = {int(path.rpartition("/")[2]) for path in self.written("descriptors").split()}
        self.assertLessEqual(inherited, {0, 1, 2, 3, 255})  # 3: bash lists the folder; 255: bash reads the script

    def test_without_root_it_continues_without_optional_packages(self):
        self.lose("ccache", "libucx-dev")
        status, out, err = self.dev("run")
        self.assertEqual(status, 0, err)
        self.assertIn("the ranks run", out)
        self.assertIn("continuing without ccache: every build compiles all files\n", err)
        self.assertIn("continuing without libucx-dev: no RDMA networks", err)
        self.assertIn("\n  apt-get install --no-install-recommends ccache libucx-dev\n", err)
        self.assertEqual(self.written("apt"), "")

    def test_without_root_it_lists_the_required_packages_and_stops(self):
        self.lose("libfmt-dev", "ccache", "libcli11-dev")
        status, out, err = self.dev("run")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("\n  apt-get install --no-install-recommends ccache libfmt-dev libcli11-dev\n", err)
        self.assertTrue(err.endswith("dev: required: libfmt-dev libcli11-dev\n"), err)
        self.assertEqual(self.written("cmake"), "")

    def test_a_tool_without_a_package_suffices(self):
        self.lose("ninja-build", "cmake", "g++")
        self.fake("ninja", "true")
        status, _, err = self.dev("run")
        self.assertEqual(status, 1)
        self.assertTrue(err.endswith("dev: required: g++\n"), err)

    def test_sudo_installs_missing_packages(self):
        self.fake("sudo", SUDO_THAT_WORKS)
        self.lose("libfmt-dev", "ccache")
        status, out, err = self.dev("run")
        self.assertEqual(status, 0, err)
        self.assertIn("the ranks run", out)
        self.assertRegex(self.written("apt"), r"install .* ccache libfmt-dev\n")
        self.assertNotIn("continuing without", err)

    def test_a_failing_sudo_counts_as_none(self):
        self.fake("sudo", SUDO_THAT_REFUSES)
        self.lose("libucx-dev")
        status, out, err = self.dev("run")
        self.assertEqual(status, 0, err)
        self.assertIn("continuing without libucx-dev", err)
        self.lose("libfmt-dev")
        self.assertEqual(self.dev("run")[0], 1)

    def test_root_installs_missing_packages(self):
        self.lose("libfmt-dev")
        status, out, err = self.dev("run", as_root=True)
        self.assertEqual(status, 0, err)
        self.assertRegex(self.written("apt"), r"install .* libfmt-dev\n")

    def test_root_without_a_network_continues_without_optional_packages(self):
        (self.fakes / "no_network").touch()
        self.lose("ccache")
        status, out, err = self.dev("run", as_root=True)
        self.assertEqual(status, 0, err)
        self.assertIn("continuing without ccache", err)

    def test_an_unavailable_package_does_not_affect_the_others(self):
        (self.fakes / "unavailable" / "ccache").touch()
        self.lose("ccache", "libfmt-dev")
        status, _, err = self.dev("run", as_root=True)
        self.assertEqual(status, 0, err)
        self.assertIn("continuing without ccache", err)
        self.assertNotIn("continuing without libfmt-dev", err)

    def expected_tests(self):
        """The groups that ./dev test passes to cmake."""
        found = re.findall(r"-DHMC_EXPECT_TESTS=(.*)$", self.written("cmake"), re.MULTILINE)
        self.assertEqual(len(found), 1, self.written("cmake"))
        return [word for word in found[0].split(";") if word]

    def test_the_groups_of_installed_packages_are_expected(self):
        status, _, err = self.dev("test")
        self.assertEqual(status, 0, err)
        self.assertEqual(self.expected_tests(), ["ucx", "spin", "opencl_headers", "doxygen", "mandoc"])

    def test_without_a_package_none_is_expected_by_default(self):
        self.lose("spin")
        status, _, err = self.dev("test")
        self.assertEqual(status, 0, err)
        self.assertIn("packages are missing (spin)", err)
        self.assertEqual(self.expected_tests(), [])

    def test_a_list_from_the_environment_is_kept_without_a_package(self):
        self.lose("mandoc")
        status, _, err = self.dev("test", HMC_EXPECT_TESTS="spin;mandoc")
        self.assertEqual(status, 0, err)
        self.assertEqual(self.expected_tests(), ["spin", "mandoc"])

    def test_sanitizers_expect_none(self):
        status, _, err = self.dev("test", "asan", HMC_EXPECT_TESTS="spin;mandoc")
        self.assertEqual(status, 0, err)
        self.assertEqual(self.expected_tests(), [])

    @unittest.skipIf(HIP_HEADER.exists(), "HIP's headers are installed")
    def test_headers_of_hip_are_fetched_with_new_lists_and_builds_configure_again(self):
        cache = self.tree / "build" / "CMakeCache.txt"
        cache.parent.mkdir()
        cache.write_text("HMC_EXPECT_TESTS:STRING=\n")
        os.utime(cache, (1, 1))
        old = self.tree / "build" / "hip-headers" / "libamdhip64-dev_0_amd64.deb"
        old.parent.mkdir()
        old.touch()
        status, _, err = self.dev("test", as_root=True)
        self.assertEqual(status, 0, err)
        self.assertNotIn("continuing without", err)
        self.assertTrue((old.parent / "usr/include/hip/hip_runtime_api.h").exists())
        self.assertEqual([path.name for path in old.parent.glob("*.deb")], ["libamdhip64-dev_1_amd64.deb"])
        self.assertGreater(cache.stat().st_mtime, 1)

    @unittest.skipIf(HIP_HEADER.exists(), "HIP's headers are installed")
    def test_unavailable_headers_of_hip_are_no_error(self):
        for trouble in ("no_network", "bad_package"):
            with self.subTest(trouble=trouble):
                (self.fakes / trouble).touch()
                status, _, err = self.dev("test", as_root=True)
                self.assertEqual(status, 0, err)
                self.assertIn("continuing without libamdhip64-dev", err)
                (self.fakes / trouble).unlink()

    def test_the_kernel_of_the_guest_is_fetched_with_new_lists(self):
        status, _, err = self.dev("test", as_root=True)
        self.assertEqual(status, 0, err)
        self.assertTrue((self.tree / "build" / "vm" / "initramfs").exists())
        self.assertFalse((self.tree / "build" / "vm.missing").exists())

    def test_an_unavailable_kernel_is_no_error_and_the_reason_is_kept(self):
        (self.fakes / "no_network").touch()
        status, _, err = self.dev("test", as_root=True)
        self.assertEqual(status, 0, err)
        self.assertIn("continuing without tests with RDMA devices: apt-get can't download it\n", err)
        self.assertEqual((self.tree / "build" / "vm.missing").read_text(), "apt-get can't download it\n")

    def test_a_check_without_its_tool_is_reported_and_the_others_run(self):
        self.lose("clang", "shellcheck")
        status, out, err = self.dev("check")
        self.assertEqual(status, 1, err)
        self.assertIn("SKIPPED clang without a warning: clang isn't installed\n", out)
        self.assertIn("SKIPPED shell scripts: shellcheck isn't installed\n", out)
        self.assertIn("ok      g++ without a warning\n", out)

    def test_a_failed_build_shows_the_error_and_fails(self):
        (self.fakes / "broken").touch()
        status, out, err = self.dev("run")
        self.assertEqual((status, out), (1, ""))
        self.assertTrue(err.endswith("FAILED: a.cpp.o\na.cpp:1:2: error: no\n"), err)
        self.assertIn("[1/2] 50 %, about ", err)


if __name__ == "__main__":
    unittest.main()
