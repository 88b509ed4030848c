#!/usr/bin/env python3
"""store_by_hand_test.py STORE_JOB: three ranks that are started by hand use the store of their job, with HMC_SECRET and
without."""

import os
import socket
import subprocess
import sys

for secret in ({}, {"HMC_SECRET": "0123456789abcdef" * 4}):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HMC_")}
    environment.update(secret, HMC_SIZE="3", HMC_STORE=f"127.0.0.1:{port}", HMC_TIMEOUT_S="60")
    ranks = [subprocess.Popen([sys.argv[1], "by_hand"], env=dict(environment, HMC_RANK=str(rank))) for rank in range(3)]
    results = [rank.wait(100) for rank in ranks]
    assert results == [0, 0, 0], results
