#!/usr/bin/env python3
"""Writes docs/memfabric.md: which functions of MemFabric this library serves.

    python3 compat/memfabric/names.py FOLDER...   compare with the original's headers: smem/host and hybm of a release
    python3 compat/memfabric/names.py             keep the original's names that the page has
    python3 compat/memfabric/names.py --check     fail if the page isn't what this program writes
"""
import fnmatch
import os
import re
import sys
import textwrap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OWN = os.path.join(ROOT, "compat", "memfabric")
PAGE = os.path.join(ROOT, "docs", "memfabric.md")
RELEASE = "1.3.0"

# Why a function of the original isn't served. The first pattern that matches counts.
REASONS = (
    ("smem_acc_http_*", "an HTTP server, which has nothing to do with memory"),
    ("smem_acc_*", "messages between any programs: here hmc::Pool::call, hmc::Store, or a library for messages"),
    ("smem_config_store_set_backend_op", "a store has its values in memory; it has no reg:// URLs"),
    ("*_set_extern_alarm", "the numbers of its alarms aren't public; smem_set_extern_logger gets each warning"),
    ("hybm_set_extra_context", "a context is for kernels on an Ascend device"),
    ("*_quant_*", "where it writes scales and offsets isn't public; it needs an Ascend device"),
)
# What a reader of the table should know about a function that is served.
NOTES = {
    "smem_bm_extend_local_mem": "host parts; the member leaves and joins again meanwhile",
    "smem_bm_set_group_event_handler": "is called; the original's isn't",
    "smem_bm_update_store_url": "for pools that are created afterwards",
    "smem_bm_update_store_server": "for pools that are created afterwards",
    "smem_bm_register_leader_change_callback": "fails: a store has one server",
    "smem_bm_get_bindable_leader_address": "fails: a store has one server",
    "smem_bm_get_bindable_leader_address_by_store_url": "fails: a store has one server",
    "smem_config_store_set_leader_handler": "reports that there is no leader",
    "smem_config_store_set_tls": "fails with certificates",
    "smem_set_conf_store_tls": "fails with certificates",
    "smem_set_config_store_tls_key": "fails: there are no private keys",
}


def declared(folder):
    """The functions that the headers of a folder declare."""
    names = set()
    for path in sorted(os.listdir(folder)):
        if path.endswith(".h"):
            with open(os.path.join(folder, path), encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#.*?(?<!\\)$", "", file.read(), flags=re.S | re.M)
            names |= set(re.findall(r"\b((?:smem|hybm)_\w+)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*;", text))
    return names


def own():
    return declared(OWN) | declared(os.path.join(OWN, "hybm"))


def original_of_the_page():
    with open(PAGE, encoding="utf-8") as file:
        return set(re.findall(r"^\| `(\w+)` \| (?:yes|no) \|", file.read(), re.M))


def reason(name):
    for pattern, text in REASONS:
        if fnmatch.fnmatch(name, pattern):
            return text
    raise SystemExit(f"{name} isn't served, and REASONS in {__file__} doesn't say why")


def page(original, served):
    additions = sorted(served - original)
    rows = [f"| `{name}` | yes | {NOTES.get(name, '')} |" if name in served else f"| `{name}` | no | {reason(name)} |"
            for name in sorted(original)]
    count = {kind: (sum(name.startswith(kind) for name in original & served), sum(name.startswith(kind) for name in original))
             for kind in ("smem_", "hybm_")}
    failing = sum(NOTES.get(name, "").startswith("fails: a store") for name in original & served)
    listed = textwrap.fill(", ".join(f"`{name}`" for name in additions) + ".", 120)
    return f"""# MemFabric's functions

Written by `compat/memfabric/names.py` from the headers of MemFabric Hybrid {RELEASE} and of `compat/memfabric`. Of its
{count["smem_"][1]} functions smem_... {count["smem_"][0]} are served ({failing} of them only report that a store has one server here), of its
{count["hybm_"][1]} functions hybm_... {count["hybm_"][0]}, on the host memory of one machine.

| function of {RELEASE} | served | |
|---|---|---|
{chr(10).join(rows)}

Served too, from the first release, from the one of February 2026, or as an addition:
{listed}
"""


def main(arguments):
    check = arguments == ["--check"]
    original = set().union(*map(declared, arguments)) if arguments and not check else original_of_the_page()
    text = page(original, own())
    if not check:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(PAGE, encoding="utf-8") as file:
        is_current = file.read() == text
    print("docs/memfabric.md is current" if is_current else "docs/memfabric.md isn't current: run compat/memfabric/names.py")
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
