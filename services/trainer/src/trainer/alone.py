"""One trainer at a time over a folder of runs: two would start the same runs, and each end what it takes for left behind."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

import structlog

log = structlog.get_logger(__name__)

LOCK = "trainer.lock"


def hold(runs_dir: Path) -> IO[bytes]:
    """The folder's lock, which is held until the file is closed or the process has ended, however it ends.

    Raises SystemExit: another trainer holds it.
    """
    file = (runs_dir / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(
            f"configuration: TRAINER_RUNS_DIR: another trainer uses {runs_dir}. End it, or give this one a folder of its own."
        ) from None
    except OSError as error:
        log.warning("folder_not_locked", folder=str(runs_dir), reason=error.strerror)
    return file
