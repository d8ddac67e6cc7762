"""Keeps child processes from outliving the server, also when the server is killed outright.

vLLM loads `die_with_parent` as a general plugin in each of its processes (the entry point stands in this service's pyproject.toml).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Asks the kernel to end this process when its parent dies; nothing outside of Linux. Fit for `preexec_fn`."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_parent() -> None:
    """In a child of `multiprocessing`: `end_with_parent`, or the end at once if the parent is gone already. Elsewhere: nothing."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    end_with_parent()
    if os.getppid() != parent.pid:
        os._exit(1)
