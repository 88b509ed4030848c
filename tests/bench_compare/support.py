"""Imports the driver, and makes results for tests."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))

from driver import contestants, plan, results, text  # noqa: E402

NAMES = ["floor-window", "floor-private", "hmc-window", "hmc-private", "openmpi", "mpich", "gloo"]


def layout(cells=None, **changes):
    one = {"name": "memory-np2", "title": "one node, 2 ranks", "np": 2, "nodes": 1, "pinned": True, "figure": "us_p50",
           "rounds": 3, "cpu_list": [0, 1], "contestants": list(NAMES), "commands": {}, "settings": {}, "cpus": {}, "loopback_bytes": {},
           "cells": cells or {"allreduce": ["allreduce:8", "allreduce:1024"], "barrier": ["barrier"]}}
    one.update(changes)
    return one


def sample(contestant, round_number, us, operation="allreduce", size=8, layout_name="memory-np2", read=0.0):
    return {"layout": layout_name, "contestant": contestant, "op": operation, "bytes": size, "round": round_number,
            "us_p50": us, "us_mean": us * 2, "us_min": us, "us_max": us, "us_read": read, "us_both_p50": us + read,
            "us_both_mean": us * 2 + read, "loopback_bytes": 0,
            "calls": 10, "batch": 1}


def whole(layouts, samples, missing, withdrawn=None, **changes):
    everyone = contestants.everyone("/nowhere")
    machine = {"cpu": "a processor", "cores": 2, "virtual": True, "memory_gib": 1.0, "kernel": "6", "system": "Debian",
               "huge_pages": "never", "shared_huge_pages": "never", "load_before": 0.1, "load_after": 0.2,
               "steal_share": 0.0}
    one = {"format": results.FORMAT, "mode": "quick", "seed": 1, "date": "2030-01-02 03:04 UTC", "commit": "abc", "rules": ["one"],
           "machine": machine, "layouts": layouts, "samples": samples, "notes": [], "failed": [], "elapsed_s": 1.0,
           "contestants": [{"name": c.name, "label": c.label, "kind": c.kind, "buffers": c.buffers, "version": "1",
                            "absent": ""} for c in everyone],
           "rows": results.rows(layouts, everyone, samples, missing, withdrawn)}
    one.update(changes)
    return one


def complete(sizes=(8, 1024)):
    """A results.json in which every contestant has every time: contestant k takes k + 1 us per 8 bytes."""
    one = layout({"allreduce": [f"allreduce:{size}" for size in sizes], "barrier": ["barrier"]})
    samples = []
    for r in range(3):
        for k, name in enumerate(NAMES):
            samples.append(sample(name, r, (k + 1) * 0.5, "barrier", 0))
            samples += [sample(name, r, (k + 1) * size / 8, "allreduce", size) for size in sizes]
    return whole([one], samples, {})


__all__ = ["ROOT", "NAMES", "layout", "sample", "whole", "complete", "plan", "results", "text"]
