"""Process groups: start a command as one, know it again later, and stop all of it.

A group is known by its leader's pid and start, so that a pid used again, after a reboot too, is never taken for it.
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
"""Times of the wall clock, which may be set a little."""
PROC = Path("/proc")
MARK = "PARALLELSEARCH_STEP"
"""Says in the environment of all that a step starts which start of it that was. What is to outlive its service goes without."""


@dataclass(frozen=True)
class Identity:
    """`boot` and `ticks` say when it started whatever the wall clock is set to; where they are not known `created_at` decides."""

    pid: int
    created_at: float
    boot: str = ""
    ticks: int = 0

    def is_of(self, other: Identity) -> bool:
        if self.boot and other.boot:
            return (self.boot, self.ticks) == (other.boot, other.ticks)
        return abs(self.created_at - other.created_at) <= CLOCK_TOLERANCE_S

    def is_not_before(self, other: Identity) -> bool:
        if self.boot and other.boot:
            return self.boot == other.boot and self.ticks >= other.ticks
        return self.created_at >= other.created_at - CLOCK_TOLERANCE_S


def identify(pid: int) -> Identity | None:
    """The identity of a living process."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return Identity(pid, process.create_time(), *_start(pid))
    return None


def _start(pid: int) -> tuple[str, int]:
    """The boot, and the clock ticks from it to the start of a process."""
    try:
        boot = (PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
        # After the name, which may hold anything, start times are the 20th field.
        return boot, int((PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return "", 0


def is_alive(identity: Identity) -> bool:
    found = identify(identity.pid)
    return found is not None and found.is_of(identity)


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
            if ours and (member := identify(process.pid)) and member.is_not_before(group):
                found.append(process)
    return found


def family(group: Identity) -> list[psutil.Process]:
    """The members, and those descendants that went into a group of their own."""
    found = {process.pid: process for process in members(group)}
    for process in list(found.values()):
        with suppress(psutil.NoSuchProcess):
            found |= {child.pid: child for child in process.children(recursive=True)}
    return list(found.values())


def marked(mark: str) -> list[psutil.Process]:
    """The processes that carry the mark, wherever they went; of an empty one there are none."""
    found = []
    for process in psutil.process_iter() if mark else ():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


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


def stop(group: Identity, grace_s: float, mark: str = "") -> bool:
    """Ends the group and all that carries the mark: asked first, killed after the grace. False if something outlived even that."""
    processes = [*family(group), *marked(mark)]
    send(processes, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (processes := living([*processes, *members(group)])) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes = living([*processes, *marked(mark)])
    send(processes, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while (processes := living([*processes, *members(group)])) and time.monotonic() < deadline:
        send(processes, signal.SIGKILL)
        time.sleep(0.05)
    return not processes
