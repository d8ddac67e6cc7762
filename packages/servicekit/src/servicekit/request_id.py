"""The id of the request being served, kept for the task that serves it."""

from __future__ import annotations

import random
import re
from contextvars import ContextVar

current: ContextVar[str] = ContextVar("request_id", default="")
_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id() -> str:
    """Empty outside of a request."""
    return current.get()


def accept(given: str) -> str:
    """The caller's id if it is 1 to 64 plain characters, else a new one."""
    if _WELL_FORMED.fullmatch(given):
        return given
    return f"{random.getrandbits(128):032x}"  # it tells requests apart and guards nothing
