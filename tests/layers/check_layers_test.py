#!/usr/bin/python3
"""check_layers.py fails on an include, a declaration or a cast that points back and on a cycle between folders: each
test plants one in a small tree."""
import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import check_layers
import include_graph

GOOD = {
    "include/hmc/types.hpp": "#include <cstddef>\n",
    "runtime/base/status.hpp": "#include <hmc/types.hpp>\n",
    "runtime/transport/wire.hpp": '#include "runtime/base/status.hpp"\n',
    "runtime/transport/shm/shm.hpp": '#include "runtime/transport/wire.hpp"\n',
    "runtime/transport/ucx/ucx.hpp": '#include <ucp/api/ucp.h>\n#include "runtime/transport/wire.hpp"\n',
    "runtime/rma/window_core.hpp": '#include "runtime/transport/wire.hpp"\n',
    "job/core.cpp": '#include "runtime/transport/shm/shm.hpp"\n#include "collectives/ring.cpp"\n',
    "collectives/ring.cpp": '#include "runtime/rma/window_core.hpp"\n',
    "bootstrap/bootstrap.hpp": '#include "runtime/base/status.hpp"\n',
    "launcher/main.cpp": '#include "bootstrap/bootstrap.hpp"\n',
    "examples/01.cpp": "#include <hmc/types.hpp>\n",
    "tests/unit/a_test.cpp": '#include "runtime/rma/window_core.hpp"\n',
}
TOP_FOLDERS = sorted({name.split("/")[0] for name in GOOD})


class Tree(unittest.TestCase):
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

    def check(self, known_arrows=None, known_downcasts=None):
        return check_layers.check(self.root, known_arrows or {}, known_downcasts or {})


class CheckLayers(Tree):
    def assert_refused(self, name, include):
        self.write(name, f"// one line\n#include {include}\n")
        complaints = [each for each in self.check() if not each.startswith("cycle of includes: ")]
        self.assertEqual(len(complaints), 1, complaints)
        self.assertTrue(complaints[0].startswith(f"{name}:2: "), complaints)

    def test_accepts_the_good_tree(self):
        self.assertEqual(self.check(), [])

    def test_base_may_not_include_transport(self):
        self.assert_refused("runtime/base/bad.cpp", '"runtime/transport/wire.hpp"')

    def test_collectives_may_not_name_what_a_header_of_windows_brings_along(self):
        self.write("collectives/bad.cpp", "// transport:: may be named in a comment\ntransport::Wire* wire = nullptr;\n")
        self.assertEqual(self.check(), ["collectives/bad.cpp:2: transport::: collectives may not name it"])

    def test_collectives_may_include_one_header_of_shm_and_no_other(self):
        self.write("runtime/transport/shm/peer_reads.hpp", "")
        self.write("runtime/transport/shm/peer_reads.cpp", '#include "runtime/transport/shm/peer_reads.hpp"\n')
        self.write("collectives/good.cpp", '#include "runtime/transport/shm/peer_reads.hpp"\ntransport::PeerReads reads;\n')
        self.assertEqual(self.check(), [])
        self.assert_refused("collectives/bad.cpp", '"runtime/transport/shm/shm.hpp"')

    def test_window_may_not_include_a_wire(self):
        self.assert_refused("runtime/rma/bad.cpp", '"runtime/transport/shm/shm.hpp"')

    def test_window_may_not_include_its_implementation_for_devices(self):
        self.write("runtime/device/part.hpp", "")
        self.assert_refused("runtime/rma/bad.cpp", '"runtime/device/part.hpp"')

    def test_bootstrap_may_not_include_what_implements_it(self):
        self.write("bootstrap/tcp/tcp.hpp", '#include "bootstrap/bootstrap.hpp"\n')
        self.write("bootstrap/detect/detect.cpp", '#include "bootstrap/tcp/tcp.hpp"\n')
        self.assertEqual(self.check(), [])
        self.assert_refused("bootstrap/bad.cpp", '"bootstrap/tcp/tcp.hpp"')

    def test_a_wire_may_not_include_another(self):
        self.assert_refused("runtime/transport/ucx/bad.cpp", '"runtime/transport/shm/shm.hpp"')

    def test_wires_that_carry_messages_may_include_them_and_no_other_wire_may(self):
        self.write("runtime/transport/am/link.hpp", '#include "runtime/transport/wire.hpp"\n')
        self.write("runtime/transport/am/tcp/tcp.hpp", '#include "runtime/transport/am/link.hpp"\n')
        self.assertEqual(self.check(), [])
        self.assert_refused("runtime/transport/shm/bad.cpp", '"runtime/transport/am/link.hpp"')

    def test_messages_may_not_include_what_carries_them(self):
        self.write("runtime/transport/am/tcp/tcp.hpp", '#include "runtime/transport/wire.hpp"\n')
        self.assert_refused("runtime/transport/am/bad.cpp", '"runtime/transport/am/tcp/tcp.hpp"')

    def test_abstract_transport_may_not_include_a_wire(self):
        self.assert_refused("runtime/transport/bad.hpp", '"runtime/transport/shm/shm.hpp"')

    def test_collectives_may_not_include_transport(self):
        self.assert_refused("collectives/bad.cpp", '"runtime/transport/wire.hpp"')

    def test_bootstrap_may_not_include_transport(self):
        self.assert_refused("bootstrap/bad.cpp", '"runtime/transport/wire.hpp"')

    def test_launcher_may_not_include_window(self):
        self.assert_refused("launcher/bad.cpp", '"runtime/rma/window_core.hpp"')

    def test_nobody_includes_job(self):
        self.write("job/job_core.hpp", "")
        self.assert_refused("collectives/bad.cpp", '"job/job_core.hpp"')

    def test_public_headers_include_no_internals(self):
        self.assert_refused("include/hmc/bad.hpp", '"runtime/base/status.hpp"')

    def test_examples_include_no_internals(self):
        self.assert_refused("examples/bad.cpp", '"runtime/base/status.hpp"')

    def test_a_library_stays_in_its_room(self):
        self.assert_refused("runtime/rma/bad.cpp", "<ucp/api/ucp.h>")

    def test_a_path_that_is_not_from_the_root_is_refused(self):
        self.assert_refused("runtime/transport/bad.hpp", '"wire.hpp"')

    def test_a_program_may_name_its_own_files_from_its_own_folder(self):
        self.write("bench/compare/common/loop.hpp", "")
        self.write("bench/compare/hmc.cpp", '#include "common/loop.hpp"\n')
        self.write("bench/README.md", "# what lives here\n")
        self.assertEqual(self.check(), [])

    def test_a_missing_public_header_is_refused(self):
        self.assert_refused("examples/bad.cpp", "<hmc/nothing.hpp>")

    def test_a_missing_or_long_readme_is_refused(self):
        (self.root / "launcher/README.md").unlink()
        self.write("tests/README.md", "line\n" * 81)
        self.assertEqual(self.check(), ["launcher: has no README.md", "tests/README.md: more than 80 lines"])


class Cycles(Tree):
    """All in `collectives`, one room of ALLOWED: the cycles alone are refused."""

    def plant(self, source, target):
        """A file of folder `source` includes one of folder `target`."""
        self.write(f"{target}/a.hpp", "")
        self.write(f"{source}/to_{target.replace('/', '_')}.cpp", f'#include "{target}/a.hpp"\n')

    def test_two_folders_that_include_each_other_are_refused(self):
        self.plant("collectives/direct", "collectives/execute")
        self.assertEqual(self.check(), [])
        self.plant("collectives/execute", "collectives/direct")
        self.assertEqual(self.check(), [
            "cycle of includes: collectives/direct -> collectives/execute -> collectives/direct "
            "(collectives/direct/to_collectives_execute.cpp:1, collectives/execute/to_collectives_direct.cpp:1)"])

    def test_a_folder_and_its_sub_folder_that_include_each_other_are_refused(self):
        self.plant("collectives", "collectives/direct")
        self.assertEqual(self.check(), [])
        self.plant("collectives/direct", "collectives")
        self.assertEqual(len(self.check()), 1)
        self.assertTrue(self.check()[0].startswith("cycle of includes: "), self.check())

    def test_a_cycle_of_three_is_reported_once(self):
        self.plant("collectives/direct", "collectives/execute")
        self.plant("collectives/execute", "collectives/barrier")
        self.plant("collectives/barrier", "collectives/direct")
        self.assertEqual(len(self.check()), 1)

    def test_a_known_cycle_is_accepted_and_no_other(self):
        known = {("collectives/execute", "collectives/direct"): "reason"}
        self.plant("collectives/direct", "collectives/execute")
        self.plant("collectives/execute", "collectives/direct")
        self.assertEqual(self.check(known), [])
        self.plant("collectives/execute", "collectives")
        self.assertEqual(self.check(known), [])
        self.plant("collectives", "collectives/direct")
        self.assertEqual(len(self.check(known)), 1)

    def test_a_known_arrow_that_closes_no_cycle_is_refused(self):
        gone = "collectives/execute -> collectives/direct closes no cycle: delete its line in KNOWN_BACK_ARROWS"
        known = {("collectives/execute", "collectives/direct"): "reason"}
        self.assertEqual(self.check(known), [gone])
        self.plant("collectives/execute", "collectives/direct")
        self.assertEqual(self.check(known), [gone])


class Declarations(Tree):
    """A type that a file declares is an arrow to the file that defines it."""

    def setUp(self):
        super().setUp()
        self.write("collectives/ring.hpp", """
namespace hmc::collectives {
struct alignas(2 * 64) [[nodiscard]] Ring final {
  struct Nested;
};
enum class Kind : int { one };
}  // namespace hmc::collectives
""")

    def assert_refused(self, name, lines, *wrong):
        self.write(name, lines)
        self.assertEqual([each for each in self.check() if not each.startswith("cycle of includes: ")], [
            f"{name}:{line}: {what}: {Path(name).parent} may not declare a type of collectives/ring.hpp"
            for line, what in wrong])

    def test_a_declared_type_of_an_upper_floor_is_refused(self):
        self.assert_refused("runtime/rma/bad.hpp", """#include <string>
namespace hmc::collectives {
class Ring;   // "{" in a comment
enum class Kind : int;
}
""", (3, "Ring"), (4, "Kind"))

    def test_it_is_refused_on_one_line_and_in_nested_namespaces(self):
        self.assert_refused("runtime/rma/bad.hpp", """const char brace = '{';
namespace hmc { namespace collectives { struct Ring; } }
""", (2, "Ring"))

    def test_a_friend_of_an_upper_floor_is_refused(self):
        self.assert_refused("runtime/rma/bad.hpp", """namespace hmc::rma {
class Window {
  friend class collectives::Ring;
};
}
""", (3, "collectives::Ring"))

    def test_a_type_of_the_same_name_elsewhere_and_a_nested_one_are_accepted(self):
        self.write("runtime/rma/good.hpp", "namespace hmc::rma {\nclass Ring;\nclass Window {\n struct Nested;\n};\n}\n")
        self.assertEqual(self.check(), [])

    def test_a_lower_floor_and_the_own_one_are_accepted(self):
        self.write("collectives/good.hpp", "namespace hmc::collectives {\nclass Ring;\n}\n")
        self.write("job/good.hpp", "namespace hmc::collectives {\nclass Ring;\n}\n")
        self.assertEqual(self.check(), [])

    def test_a_public_class_may_name_the_type_behind_it(self):
        self.write("include/hmc/team.hpp", "namespace hmc::collectives {\nclass Ring;\n}\n")
        self.assertEqual(self.check(), [])

    def test_a_declaration_closes_a_cycle(self):
        self.write("collectives/node/ring.cpp", '#include "collectives/ring.hpp"\n')
        self.write("collectives/node/engine.hpp", "namespace hmc::collectives {\nclass Engine {};\n}\n")
        self.assertEqual(self.check(), [])
        self.write("collectives/plan.hpp", "namespace hmc::collectives {\nclass Engine;\n}\n")
        self.assertEqual(self.check(), ["cycle of includes: collectives -> collectives/node -> collectives "
                                        "(collectives/plan.hpp:2, collectives/node/ring.cpp:1)"])


class Downcasts(Tree):
    """A floor that keeps an object by its own interface hands it up, and the floor above casts it down."""

    CAST = ("collectives/use.cpp", "Ring")
    COMPLAINT = ("collectives/use.cpp:2: Ring: a cast to a type of collectives/ring.hpp "
                 "whose base is of runtime/rma/window_core.hpp")

    def setUp(self):
        super().setUp()
        self.write("runtime/rma/window_core.hpp", "namespace hmc::rma {\nclass Kept {\n};\n}\n")
        self.write("collectives/ring.hpp", """namespace hmc::collectives {
class Ring final : private std::vector<std::pair<int, int>>, public rma::Kept {
};
}
""")

    def cast(self, expression, name="collectives/use.cpp"):
        self.write(name, f"namespace hmc::collectives {{\nauto& ring = {expression};\n}}\n")
        return self.check()

    def test_a_cast_to_a_type_of_the_own_floor_is_refused(self):
        self.assertEqual(self.cast("static_cast<Ring&>(*team.kept)"), [self.COMPLAINT])
        self.assertEqual(self.cast("dynamic_cast<const Ring*>(team.kept)"), [self.COMPLAINT])
        self.assertEqual(self.cast("std::static_pointer_cast<Ring>(team.kept)"), [self.COMPLAINT])

    def test_a_class_between_the_type_and_its_base_hides_nothing(self):
        self.write("collectives/wide.hpp", "namespace hmc::collectives {\nclass Wide : public Ring {\n};\n}\n")
        self.assertEqual(self.cast("static_cast<Wide&>(*team.kept)"),
                         [self.COMPLAINT.replace("Ring", "Wide").replace("ring.hpp", "wide.hpp")])

    def test_a_base_of_the_same_folder_and_a_value_are_accepted(self):
        self.write("collectives/pair.hpp", "namespace hmc::collectives {\nstruct A {\n};\nclass B : public A {\n};\n}\n")
        self.assertEqual(self.cast("static_cast<B&>(*a)"), [])
        self.assertEqual(self.cast("static_cast<Ring>(number)"), [])

    def test_tests_may_look_into_an_object(self):
        self.assertEqual(self.cast("static_cast<Ring&>(*team.kept)", "tests/unit/use.cpp"), [])

    def test_a_known_cast_is_accepted_and_a_line_without_one_is_refused(self):
        known = {self.CAST: "reason"}
        self.assertEqual(self.check(known_downcasts=known),
                         ["collectives/use.cpp has no cast to Ring: delete its line in KNOWN_DOWNCASTS"])
        self.cast("static_cast<Ring&>(*team.kept)")
        self.assertEqual(self.check(known_downcasts=known), [])


class Picture(Tree):
    def draw(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()):
            return include_graph.main([*arguments, str(self.root)], {})

    def test_shows_the_arrows_that_no_longer_path_implies(self):
        self.write("docs/README.md", "# docs\n")
        self.draw()
        page = (self.root / include_graph.PICTURE).read_text(encoding="utf-8")
        self.assertIn("runtime_transport_shm --> runtime_transport\n", page)
        self.write("runtime/transport/shm/more.cpp", '#include "runtime/base/status.hpp"\n')
        self.assertEqual(self.draw("--check"), 0)

    def test_is_out_of_date_after_a_new_arrow(self):
        self.write("docs/README.md", "# docs\n")
        self.assertEqual(self.draw("--check"), 1)
        self.draw()
        self.assertEqual(self.draw("--check"), 0)
        self.write("bootstrap/tcp/store.cpp", '#include "bootstrap/bootstrap.hpp"\n')
        self.assertEqual(self.draw("--check"), 1)


if __name__ == "__main__":
    unittest.main()
