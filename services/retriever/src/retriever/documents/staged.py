"""Uploads on their way in: hidden files beside their places, each under a lock that ends with the process that writes it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_PREFIX = ".upload-"


@contextmanager
def staged(uploads: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file to be written and moved to its place; removed at the end unless it was moved."""
    path, file = _locked(uploads)
    try:
        with file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def drop_left_over(uploads: Path) -> None:
    """Removes what processes that are gone did not finish. What cannot be locked, or removed, stays."""
    for path in uploads.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)


def _locked(uploads: Path) -> tuple[Path, IO[bytes]]:
    while True:
        descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=uploads)
        file = os.fdopen(descriptor, "wb")
        with suppress(OSError):  # of a file system that knows no locks, and where none is dropped either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return Path(name), file
        file.close()  # another process took it for left over before it was locked
