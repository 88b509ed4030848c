"""The man pages and the programs' --help: the same options and the same defaults."""

import os
import re
import subprocess
import unittest
from pathlib import Path

BIN = Path(os.environ["HMC_BIN"])
ROOT = Path(__file__).resolve().parents[2]

# A page, its section, and the command whose --help it matches.
SECTIONS = [
    ("launcher/hmcrun.1", "OPTIONS", ["hmcrun"]),
    ("launcher/hmcinfo.1", "OPTIONS", ["hmcinfo"]),
    ("launcher/hmcinfo.1", "SUBCOMMAND devices", ["hmcinfo", "devices"]),
    ("launcher/hmcinfo.1", "SUBCOMMAND launchers", ["hmcinfo", "launchers"]),
    ("launcher/hmcinfo.1", "SUBCOMMAND ps", ["hmcinfo", "ps"]),
    ("launcher/hmcinfo.1", "SUBCOMMAND stacks", ["hmcinfo", "stacks"]),
    ("launcher/hmcinfo.1", "SUBCOMMAND explain", ["hmcinfo", "explain"]),
    ("sim/hmc-sim.1", "OPTIONS", ["hmc-sim"]),
    ("verify/hmc-verify.1", "OPTIONS", ["hmc-verify"]),
]
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def options_of_help(words):
    """{option: default or None}, and the help's whole text."""
    text = subprocess.run([BIN / words[0], *words[1:], "--help"], check=True, capture_output=True, text=True).stdout
    options = {}
    for names, value, rest in re.findall(r"^  (-[^\s,]+(?:,-[^\s,]+)*)(?: ([^\s]+))?(.*)$", text, re.MULTILINE):
        default = value.partition("=")[2] if re.match(r"[A-Z]+(:.*)?=", value) else ""
        for name in names.split(",") + re.findall(r"also (-\w+)", rest):
            options[name] = default or None
    return options, text


def options_of_page(page, section):
    """{option: text of its paragraph}"""
    source = (ROOT / page).read_text(encoding="utf-8")
    parts = re.split(r"^\.SH (.*)$", source, flags=re.MULTILINE)
    body = dict(zip(parts[1::2], parts[2::2]))[section]
    options = {}
    for paragraph in re.split(r"^\.TP\n", body, flags=re.MULTILINE)[1:]:
        tag, _, text = paragraph.replace("\\-", "-").partition("\n")
        for name in OPTION.findall(re.sub(r'\\f.|"', "", tag)):
            options[name] = text
    return options


class ManPages(unittest.TestCase):
    def test_every_option_of_help_is_on_the_page_and_no_other(self):
        for page, section, words in SECTIONS:
            with self.subTest(page=page, section=section):
                on_page = options_of_page(page, section)
                in_help, _ = options_of_help(words)
                self.assertIn("--help", in_help)
                self.assertEqual(sorted(on_page), sorted(in_help))

    def test_the_defaults_are_those_of_help(self):
        for page, section, words in SECTIONS:
            on_page = options_of_page(page, section)
            for option, default in options_of_help(words)[0].items():
                with self.subTest(page=page, section=section, option=option):
                    said = re.findall(r"\(default: ([^)]*)\)", on_page.get(option, ""))
                    self.assertEqual(said, [default] if default else [])

    def test_a_wrong_command_line_exits_with_2_and_every_page_says_so(self):
        for page in sorted({page for page, _, _ in SECTIONS}):
            program = Path(page).stem
            with self.subTest(program=program):
                wrong = subprocess.run([BIN / program, "--no-such-option"], check=False, capture_output=True)
                self.assertEqual(wrong.returncode, 2)
                source = (ROOT / page).read_text(encoding="utf-8")
                status = re.search(r"^\.SH EXIT STATUS\n(.*?)^\.SH ", source, re.MULTILINE | re.DOTALL).group(1)
                said = dict(re.findall(r"^\.TP\n\.B (\d+)\n(.*)$", status, re.MULTILINE))
                self.assertEqual(said.get("2"), "The command line is wrong.")

    def test_every_subcommand_has_a_section(self):
        _, text = options_of_help(["hmcinfo"])
        commands = re.findall(r"^  (\w+) ", text.partition("Subcommands:")[2], re.MULTILINE)
        sections = [section.removeprefix("SUBCOMMAND ") for _, section, words in SECTIONS if len(words) == 2]
        self.assertEqual(sorted(commands), sorted(sections))


if __name__ == "__main__":
    unittest.main()
