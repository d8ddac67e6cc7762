"""Process groups: start a command as one, know it again later, and stop all of it.

A group is known by its leader's pid and start time, so that a pid used again after a reboot is never taken for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

CLOCK_TOLERANCE_S = 2.0
"""Start times come from the wall clock of the boot, which may be set a little."""


@dataclass(frozen=True)
class Identity:
    pid: int
    created_at: float


def identify(pid: int) -> Identity | None:
    """The identity of a living process."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return Identity(pid, process.create_time())
    return None


def is_alive(identity: Identity) -> bool:
    found = identify(identity.pid)
    return found is not None and abs(found.created_at - identity.created_at) <= CLOCK_TOLERANCE_S


def start(command: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a command as the leader of a session and group of its own, both outputs appended to `log`.

    Raises:
        OSError: the command cannot be run.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def rotate(log: Path) -> None:
    """The log of the run before is kept as `NAME.log.1`."""
    with suppress(FileNotFoundError):
        log.replace(log.with_name(log.name + ".1"))


def members(group: Identity) -> list[psutil.Process]:
    """The living processes of a group, also when its leader is gone."""
    leader = identify(group.pid)
    if leader is not None and not is_alive(group):
        return []
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            ours = os.getpgid(process.pid) == group.pid and os.getsid(process.pid) == group.pid
            in_time = ours and process.create_time() >= group.created_at - CLOCK_TOLERANCE_S
            if in_time and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def family(group: Identity) -> list[psutil.Process]:
    """The members, and those descendants that went into a group of their own."""
    found = {process.pid: process for process in members(group)}
    for process in list(found.values()):
        with suppress(psutil.NoSuchProcess):
            found |= {child.pid: child for child in process.children(recursive=True)}
    return list(found.values())


def living(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    alive = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def stop(group: Identity, grace_s: float) -> bool:
    """Ends every process of the group: asked first, killed after the grace. False if something outlived even that."""
    processes = family(group)
    send(processes, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (processes := living([*processes, *members(group)])) and time.monotonic() < deadline:
        time.sleep(0.05)
    send(processes, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while (processes := living([*processes, *members(group)])) and time.monotonic() < deadline:
        send(processes, signal.SIGKILL)
        time.sleep(0.05)
    return not processes
