"""Keeps vLLM's own child processes from outliving the server, also when the server is killed outright.

vLLM loads this as a general plugin in each of its processes (the entry point stands in this service's pyproject.toml).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """In a child: asks the kernel to end this process when its parent dies. Elsewhere, and outside of Linux: nothing."""
    parent = multiprocessing.parent_process()
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent.pid:
        os._exit(1)
