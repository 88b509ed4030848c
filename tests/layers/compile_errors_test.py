"""Code that the public headers reject at compile time, and the messages.

CXX is the compiler, INCLUDE the folder of the public headers."""

import os
import subprocess
import unittest

ATOMICS = "HMC's atomics take words of 32 and 64 bits"
ELEMENTS = "HMC has no element type for this C++ type"
DIALECT = "HMC needs C++20"


def compile_it(body, dialect="-std=c++20", header="hmc/hmc.hpp"):
    """(whether it compiles, the compiler's output)"""
    source = f"#include <{header}>\n{body}\n"
    command = [os.environ["CXX"], dialect, "-Wall", "-Werror", "-I", os.environ["INCLUDE"], "-x", "c++", "-", "-c",
               "-o", os.devnull]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False,
                          env=dict(os.environ, LC_ALL="C"))
    return done.returncode == 0, done.stderr


def functions(lines):
    """A function of each of these lines, compiled at once, since the headers take most of the time."""
    text = "struct Mine { int a, b; };\n"
    for number, line in enumerate(lines):
        text += f"void use_{number}(hmc::Window& win, hmc::Team& team) {{ (void)win; (void)team; {line} }}\n"
    return text


def reducing(kind):
    return f"using K = {kind}; K in[2]{{}}, out[2]{{}}; team.allreduce(in, out, hmc::sum);"


INTEGERS_OF_32_AND_64_BITS = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long")
VERBS = {"fetch_add": "1", "swap": "1", "compare_swap": "1, 2", "fetch_and": "1", "fetch_or": "1", "fetch_xor": "1",
         "add": "1", "set": "1", "atomic_and": "1", "atomic_or": "1", "atomic_xor": "1"}


class CompileErrors(unittest.TestCase):
    def refuse(self, lines, sentence):
        """Expects the message once for each line."""
        fine, text = compile_it(functions(lines))
        self.assertFalse(fine)
        self.assertEqual(sum("error:" in line and sentence in line for line in text.splitlines()), len(lines), text)

    def test_supported_types_compile(self):
        elements = ("signed char", "unsigned char", "short", "unsigned short", "float", "double", "hmc::bfloat16",
                    "hmc::Located<double>", *INTEGERS_OF_32_AND_64_BITS)
        lines = [reducing(kind) for kind in elements]
        for kind in INTEGERS_OF_32_AND_64_BITS:
            lines.append(f"using K = {kind}; (void)win.fetch_add<K>(0, 0, 1); (void)win.fetch<K>(0, 0);")
        lines += [f"(void)win.{verb}<std::int64_t>(0, 0, {values});" for verb, values in VERBS.items()]
        lines += ["static_assert(hmc::dtype_of<long long>() == hmc::dtype_of<std::int64_t>());",
                  "static_assert(hmc::dtype_of<unsigned long long>() == hmc::DType::u64);"]
        fine, text = compile_it(functions(lines))
        self.assertTrue(fine, text)

    def test_other_types_are_rejected_as_elements(self):
        self.refuse([reducing(kind) for kind in ("Mine", "bool", "char", "void*", "long double")], ELEMENTS)

    def test_the_width_of_an_atomic_is_not_deduced_from_its_value(self):
        self.refuse([f"win.{verb}(0, 0, {values});" for verb, values in VERBS.items()], "no matching")

    def test_atomics_refuse_other_types(self):
        lines = [f"using K = {kind}; win.add<K>(0, 0, K{{}});" for kind in ("short", "double", "Mine")]
        lines += [f"using K = {kind}; (void)win.fetch<K>(0, 0);" for kind in ("bool", "char")]
        self.refuse(lines, ATOMICS)

    def test_messages_of_c_arrays_and_pointers_are_rejected(self):
        buffer = "int array[4]{}; int* const pointer = array;"
        calls = [f"team.{call}({data}, 1{more})" for call in ("send", "recv", "isend", "irecv")
                 for data in ("array", "pointer") for more in ("", ", 2", ", 2, 3")]
        calls += [f"team.sendrecv({data}, 1, 2, {data}, 3)" for data in ("array", "pointer")]
        self.refuse([f"{buffer} (void){call};" for call in calls], "use of deleted function")

    def test_a_dropped_request_is_rejected(self):
        lines = ["std::vector<int> v; team.isend(v, 1);", "std::vector<int> v; team.irecv(v, 1);",
                 "int value{}; team.isend_bytes(&value, 4, 1);", "int value{}; team.irecv_bytes(&value, 4, 1);",
                 "team.ibarrier();", "std::vector<int> v; team.ibroadcast(v, 0);",
                 "std::vector<int> v; team.iallreduce(v, v, hmc::sum);", "int v{}; win.put_nb(0, 0, &v, 4);",
                 "hmc::Request::from_raw({});"]
        fine, text = compile_it("#include <vector>\n" + functions(lines))
        self.assertFalse(fine)
        self.assertEqual(sum("error: ignoring return" in line or "error: ignoring temporary" in line
                             for line in text.splitlines()), len(lines), text)

    def non_blocking_calls(self, buffer):
        """Each non-blocking call with `buffer` in each of its places."""
        for call in ("isend({}, 1)", "irecv({}, 1)", "ibroadcast({}, 0)"):
            yield call.format(buffer)
        for call in ("igather({}, {}, 0)", "iscatter({}, {}, 0)", "iallgather({}, {})", "ialltoall({}, {})",
                     "igatherv({}, {}, c, c, 0)", "iscatterv({}, {}, c, c, 0)", "iallgatherv({}, {}, c)",
                     "ialltoallv({}, c, c, {}, c, c, 1)", "ireduce({}, {}, hmc::sum, 0)", "iallreduce({}, {}, hmc::sum)",
                     "ireduce_scatter({}, {}, hmc::sum)", "ireduce_scatterv({}, {}, c, hmc::sum)",
                     "iscan({}, {}, hmc::sum)", "iexscan({}, {}, hmc::sum)"):
            yield call.format(buffer, "v")
            yield call.format("v", buffer)

    def test_temporaries_that_own_their_values_are_rejected_in_non_blocking_calls(self):
        lines = [f"std::vector<int> v(4), c(4); team.{call}.wait();" for owner in ("std::vector<int>(4)", "Values{{}}")
                 for call in self.non_blocking_calls(owner)]
        lines += [f"std::vector<int> v(4); team.start(hmc::describe::{call}).wait();" for call in
                  ("broadcast(std::vector<int>(4), 0)", "allgather(std::vector<int>(4), v)",
                   "allreduce(v, Values{}, hmc::sum)", "allgatherv(v, v, std::vector<int>(4))")]
        fine, text = compile_it("#include <array>\n#include <vector>\nusing Values = std::array<int, 4>;" +
                                functions(lines))
        self.assertFalse(fine)
        self.assertEqual(sum("error: no matching function" in line for line in text.splitlines()), len(lines), text)

    def test_ranges_bytes_and_views_compile(self):
        sources = ("std::vector<int> v(4);", "std::array<int, 4> v{};", "int a[4]{}; const std::span v(a);",
                   "int a[4]{}; const std::span v = std::as_writable_bytes(std::span(a));")
        calls = ("team.send(v, 1, 2);", "team.recv(v, 1, 2);", "team.isend(v, 1, 2).wait();",
                 "team.irecv(v, 1, 2).wait();", "team.sendrecv(v, 1, 2, v, 3);")
        lines = [f"{source} {call}" for source in sources for call in calls]
        lines += [f"int a[4]{{}}; team.{call};" for call in
                  ("send_bytes(a, 1, 2)", "recv_bytes(a, 1, 2)", "isend_bytes(a, 1, 2).wait()",
                   "irecv_bytes(a, 1, 2).wait()", "sendrecv_bytes(a, 1, 2, 3, a, 1)")]
        lines += [f"std::vector<int> v(4), c(4); team.{call}.wait();" for buffer in ("v", "std::span(v)")
                  for call in self.non_blocking_calls(buffer)]
        lines += ["static_assert(!std::is_copy_constructible_v<hmc::Request> && "
                  "!std::is_copy_assignable_v<hmc::Request>);",
                  "static_assert(std::is_nothrow_move_constructible_v<hmc::Request> && "
                  "std::is_nothrow_move_assignable_v<hmc::Request>);"]
        fine, text = compile_it("#include <array>\n#include <vector>\n" + functions(lines))
        self.assertTrue(fine, text)

    def test_an_older_dialect_gets_one_message_only(self):
        fine, text = compile_it("", "-std=c++17")
        self.assertFalse(fine)
        self.assertIn(DIALECT, text)
        self.assertEqual(text.count("error:"), 1, text)

    def test_an_older_dialect_gets_the_message_first_from_a_single_header(self):
        for header in ("window", "types", "float16", "float8"):
            with self.subTest(header):
                _, text = compile_it("", "-std=c++17", f"hmc/{header}.hpp")
                errors = [line for line in text.splitlines() if "error:" in line]
                self.assertIn(DIALECT, errors[0])
                if header == "types" or header.startswith("float"):
                    self.assertTrue(all(DIALECT in line for line in errors), text)


if __name__ == "__main__":
    unittest.main()
