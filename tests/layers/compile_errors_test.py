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
