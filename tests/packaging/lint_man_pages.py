#!/usr/bin/env python3
"""lint_man_pages.py MANDOC SOURCE: mandoc reports no error and no warning for any man page of the sources."""
import subprocess
import sys
from pathlib import Path

mandoc, source = sys.argv[1:]
pages = sorted(page for folder in ("launcher", "sim", "verify") for page in Path(source, folder).glob("*.1"))
failed = len(pages) < 4
for page in pages:
    lint = subprocess.run([mandoc, "-T", "lint", "-W", "warning", page], check=False, capture_output=True, text=True)
    if (lint.returncode, lint.stdout) != (0, ""):
        failed = True
        print(lint.stdout + lint.stderr)
print(f"{len(pages)} man pages")
sys.exit(failed)
