"""Serves the config store at MF_CONFIG_STORE_URL until SIGINT or SIGTERM: python -m memfabric_hybrid.launch_ascend_mf_store"""

import os
import signal
import sys

from memfabric_hybrid import create_config_store, get_last_err_msg, set_log_level


def launch_ascend_mf_store():
    """Returns while the store is served. MF_LOG_LEVEL: see set_log_level."""
    level = os.environ.get("MF_LOG_LEVEL", "")
    if level.isdigit():
        set_log_level(int(level))
    url = os.environ.get("MF_CONFIG_STORE_URL")
    if not url:
        raise ValueError("MF_CONFIG_STORE_URL isn't set: tcp://ip:port")
    code = create_config_store(url)
    if code != 0:
        print(get_last_err_msg(), file=sys.stderr)
        sys.exit(code)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    launch_ascend_mf_store()
    while True:
        signal.pause()
