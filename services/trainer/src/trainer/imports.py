"""Whether the interpreter of a run finds what its specification names by import path, before anything starts.

The code is somebody's own: it is imported in a process of its own, without the service's secrets, and only for so long.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping

from parallelsearch.errors import InvalidInput

TIMEOUT_S = 15.0
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
MAX_WORDS = 300
FOUND = 42
LOOK = (
    "import importlib, sys; module, name = sys.argv[1].split(':'); found = getattr(importlib.import_module(module), name); "
    f"sys.exit({FOUND} if callable(found) else f'it is no function but {{type(found).__name__}}')"
)


def check_function(place: str, field: str, python: str, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
    """Imports `package.module:function` with a run's Python and environment.

    Raises:
        InvalidInput: it is not there, is no function, or takes longer than `timeout_s` to import; names the field.
    """
    own = {name: os.environ[name] for name in KEPT if name in os.environ}
    with tempfile.TemporaryDirectory() as nowhere:
        try:
            process = subprocess.Popen(
                [python, "-c", LOOK, place],
                cwd=nowhere,
                env={**own, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise InvalidInput(f"{field}: {python}, which is to run it, cannot be started: {error.strerror}.") from None
        try:
            _, said = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            said = b"its import has not ended after %g s" % timeout_s
        finally:
            _end(process)
    if process.returncode != FOUND:
        lines = said.decode(errors="replace").strip().splitlines() or ["its import leaves the process"]
        raise InvalidInput(
            f"{field}: {place} cannot be used by the run's Python ({python}): {lines[-1][:MAX_WORDS]}. "
            "Install the package there, or add its folder to the trainer's PYTHONPATH."
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Also what the import has started and left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
