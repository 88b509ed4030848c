"""The API reference: Doxygen reads the headers without a warning, and their comments are on the pages."""

import html
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[2] / "include" / "hmc"
DOXYFILE = Path(os.environ["HMC_DOXYFILE"])


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


class ApiReference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = subprocess.run(["doxygen", "-"], check=False, capture_output=True, text=True,
                                  input=f"{DOXYFILE.read_text()}\nOUTPUT_DIRECTORY = {folder.name}\n")
        cls.html = Path(folder.name) / "html"

    def test_doxygen_has_no_warning(self):
        self.assertEqual((self.made.returncode, self.made.stderr), (0, ""))

    def test_every_public_class_has_a_page(self):
        for header in HEADERS.glob("*.hpp"):
            for name in re.findall(r"^class (?:HMC_API )?(?:\[\[nodiscard\]\] )?(\w+)[^;]*{", header.read_text(), re.MULTILINE):
                with self.subTest(header=header.name, name=name):
                    self.assertTrue((self.html / f"classhmc_1_1{name.replace('_', '__')}.html").exists())

    def test_every_c_function_is_on_the_page(self):
        for header, page, least in (("hmc_c.h", "hmc__c_8h.html", 100), ("vmm_c.h", "vmm__c_8h.html", 10)):
            functions = re.findall(r"^HMC_C_API [^;(]*?(\w+)\(", (HEADERS / header).read_text(), re.MULTILINE)
            self.assertGreater(len(functions), least)
            on_page = set(text_of(self.html / page).split())
            self.assertEqual([name for name in functions if name not in on_page], [])

    def test_sections_of_a_class_are_shown_and_comments_stay_with_their_members(self):
        source = (self.html / "classhmc_1_1Window.html").read_text(encoding="utf-8")
        page = text_of(self.html / "classhmc_1_1Window.html")
        sections = re.findall(r"^  // ---- (\w[\w ]*\w)", (HEADERS / "window.hpp").read_text(), re.MULTILINE)
        self.assertGreater(len(sections), 3)
        for section in sections:
            self.assertIn(section, page)
        groups = " ".join(re.findall(r'<div class="groupText">(.*?)</div>', source, re.DOTALL))
        self.assertNotIn("put_signal", groups)

    def test_comments_of_c_fields_are_on_the_page(self):
        header = (HEADERS / "hmc_c.h").read_text()
        body = re.search(r"typedef struct hmc_error_detail {(.*?)}", header, re.DOTALL)[1]
        comments = re.findall(r"; /\* (.*?) \*/", body)
        self.assertGreater(len(comments), 0)
        page = text_of(self.html / "structhmc__error__detail.html")
        for comment in comments:
            self.assertIn(comment, page)


if __name__ == "__main__":
    unittest.main()
