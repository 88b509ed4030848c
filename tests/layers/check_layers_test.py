#!/usr/bin/python3
"""check_layers.py fails when an include points back: each test plants one in a small tree."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("check_layers.py")

GOOD = {
    "include/hmc/types.hpp": "#include <cstddef>\n",
    "runtime/base/status.hpp": "#include <hmc/types.hpp>\n",
    "runtime/transport/wire.hpp": '#include "runtime/base/status.hpp"\n',
    "runtime/transport/shm/shm.hpp": '#include "runtime/transport/wire.hpp"\n',
    "runtime/transport/ucx/ucx.hpp": '#include <ucp/api/ucp.h>\n#include "runtime/transport/wire.hpp"\n',
    "runtime/window/core.hpp": '#include "runtime/transport/wire.hpp"\n',
    "runtime/job/core.cpp": '#include "runtime/transport/shm/shm.hpp"\n#include "collectives/ring.cpp"\n',
    "collectives/ring.cpp": '#include "runtime/window/core.hpp"\n',
    "bootstrap/bootstrap.hpp": '#include "runtime/base/status.hpp"\n',
    "launcher/main.cpp": '#include "bootstrap/bootstrap.hpp"\n',
    "examples/01.cpp": "#include <hmc/types.hpp>\n",
    "tests/unit/a_test.cpp": '#include "runtime/window/core.hpp"\n',
}
TOP_FOLDERS = sorted({name.split("/")[0] for name in GOOD})


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.TemporaryDirectory()
        self.addCleanup(self.tree.cleanup)
        self.root = Path(self.tree.name)
        for name, text in GOOD.items():
            self.write(name, text)
        for folder in TOP_FOLDERS:
            self.write(f"{folder}/README.md", "# what lives here\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self):
        done = subprocess.run([sys.executable, SCRIPT, self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def assert_refused(self, name, include):
        self.write(name, f"// one line\n#include {include}\n")
        code, out = self.check()
        self.assertEqual(code, 1, out)
        self.assertEqual(len(out.splitlines()), 1, out)
        self.assertTrue(out.startswith(f"{name}:2: "), out)

    def test_accepts_the_good_tree(self):
        self.assertEqual(self.check(), (0, "every include points the right way\n"))

    def test_base_may_not_include_transport(self):
        self.assert_refused("runtime/base/bad.cpp", '"runtime/transport/wire.hpp"')

    def test_collectives_may_not_name_what_a_header_of_windows_brings_along(self):
        self.write("collectives/bad.cpp", "// transport:: may be spoken of\ntransport::Wire* wire = nullptr;\n")
        code, out = self.check()
        self.assertEqual((code, out), (1, "collectives/bad.cpp:2: transport::: collectives may not name it\n"))

    def test_window_may_not_include_a_wire(self):
        self.assert_refused("runtime/window/bad.cpp", '"runtime/transport/shm/shm.hpp"')

    def test_a_wire_may_not_include_another(self):
        self.assert_refused("runtime/transport/ucx/bad.cpp", '"runtime/transport/shm/shm.hpp"')

    def test_wires_that_carry_messages_may_include_them_and_no_other_wire_may(self):
        self.write("runtime/transport/messages/link.hpp", '#include "runtime/transport/wire.hpp"\n')
        self.write("runtime/transport/tcp/tcp.hpp", '#include "runtime/transport/messages/link.hpp"\n')
        self.write("runtime/transport/wires.cpp", '#include "runtime/transport/tcp/tcp.hpp"\n')
        self.assertEqual(self.check()[0], 0)
        self.assert_refused("runtime/transport/shm/bad.cpp", '"runtime/transport/messages/link.hpp"')

    def test_messages_may_not_include_what_carries_them(self):
        self.write("runtime/transport/tcp/tcp.hpp", '#include "runtime/transport/wire.hpp"\n')
        self.assert_refused("runtime/transport/messages/bad.cpp", '"runtime/transport/tcp/tcp.hpp"')

    def test_abstract_transport_may_not_include_a_wire(self):
        self.assert_refused("runtime/transport/bad.hpp", '"runtime/transport/shm/shm.hpp"')

    def test_collectives_may_not_include_transport(self):
        self.assert_refused("collectives/bad.cpp", '"runtime/transport/wire.hpp"')

    def test_bootstrap_may_not_include_transport(self):
        self.assert_refused("bootstrap/bad.cpp", '"runtime/transport/wire.hpp"')

    def test_launcher_may_not_include_window(self):
        self.assert_refused("launcher/bad.cpp", '"runtime/window/core.hpp"')

    def test_nobody_includes_job(self):
        self.write("runtime/job/core.hpp", "")
        self.assert_refused("collectives/bad.cpp", '"runtime/job/core.hpp"')

    def test_public_headers_include_no_internals(self):
        self.assert_refused("include/hmc/bad.hpp", '"runtime/base/status.hpp"')

    def test_examples_include_no_internals(self):
        self.assert_refused("examples/bad.cpp", '"runtime/base/status.hpp"')

    def test_a_library_stays_in_its_room(self):
        self.assert_refused("runtime/window/bad.cpp", "<ucp/api/ucp.h>")

    def test_a_path_that_is_not_from_the_root_is_refused(self):
        self.assert_refused("runtime/transport/bad.hpp", '"wire.hpp"')

    def test_a_program_may_name_its_own_files_from_its_own_folder(self):
        self.write("bench/compare/common/loop.hpp", "")
        self.write("bench/compare/hmc.cpp", '#include "common/loop.hpp"\n')
        self.write("bench/README.md", "# what lives here\n")
        self.assertEqual(self.check()[0], 0)

    def test_a_missing_public_header_is_refused(self):
        self.assert_refused("examples/bad.cpp", "<hmc/nothing.hpp>")

    def test_a_missing_or_long_readme_is_refused(self):
        (self.root / "launcher/README.md").unlink()
        self.write("tests/README.md", "line\n" * 81)
        code, out = self.check()
        self.assertEqual(code, 1)
        self.assertEqual(out.splitlines(), ["launcher: has no README.md", "tests/README.md: more than 80 lines"])


if __name__ == "__main__":
    unittest.main()
