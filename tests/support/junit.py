"""The entries of ctest's JUnit files."""


def outcome_of(case):
    """passed, failed, skipped, or unstable, which only unstable.py writes.

    The status is "notrun" both for an entry that has skipped itself and for one that ctest could not start: its program,
    its folder or a file that it needs is missing. Only the message tells them apart. ctest counts the second as failed.
    """
    status = case.get("status")
    if status in ("run", "unstable"):
        return "passed" if status == "run" else status
    skipped = case.find("skipped")
    if status == "disabled" or (status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        return "skipped"
    return "failed"
