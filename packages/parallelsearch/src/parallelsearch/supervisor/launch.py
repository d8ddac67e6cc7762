"""Brings the platform up and down: one supervising process per state folder, found again by its lock and its snapshot."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import TypeAdapter

from parallelsearch.errors import ConfigurationError, ParallelSearchError
from parallelsearch.supervisor import groups, snapshot
from parallelsearch.supervisor.places import StateFolder
from parallelsearch.supervisor.run import Supervisor
from parallelsearch.supervisor.snapshot import Phase, Snapshot, StepPhase
from parallelsearch.supervisor.steps import Plan

PLANS = TypeAdapter(Plan)
POLL_S = 0.1
APPEAR_S = 20.0
"""What the supervising process may take to write its first snapshot."""

Report = Callable[[Snapshot], None]


class StartFailed(ParallelSearchError):
    code, title = "start-failed", "The platform did not start"


@dataclass(frozen=True)
class StopResult:
    """`stopped` names what was ended; `survivors` what could not be."""

    stopped: tuple[str, ...]
    survivors: tuple[str, ...] = ()


@contextmanager
def lock(state: StateFolder) -> Iterator[None]:
    """Held as long as a platform runs out of this state folder.

    Raises:
        ConfigurationError: another one holds it.
    """
    state.make()
    with state.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"A platform runs out of {state.root} already. Stop it first: parallelsearch down") from None
        yield


@contextmanager
def turn(state: StateFolder) -> Iterator[None]:
    """Held by whoever is about to start a platform out of this folder, until its supervising process is there; others wait."""
    state.make()
    with state.turn.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def running(state: StateFolder) -> Snapshot | None:
    """The snapshot of a platform whose supervising process is alive."""
    found = snapshot.read(state.snapshot)
    return found if found and groups.is_alive(found.supervisor) else None


def supervise(plan: Plan, state: StateFolder, environ: Mapping[str, str], report: Report, *, attached: bool) -> bool:
    """Runs a plan in this process until a signal; false if it failed. The snapshot file follows every change."""
    with lock(state):
        sweep(state)

        written: Snapshot | None = None

        def publish(current: Snapshot) -> None:
            nonlocal written
            if current != written:
                with suppress(OSError):  # no room, for now; or the folder was deleted, which ends the platform
                    snapshot.write(state.snapshot, current)
                    written = current
            report(current)

        supervisor = Supervisor(plan, state, environ, publish, attached=attached)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: supervisor.request_stop())
        signal.signal(signal.SIGUSR1, lambda *_: supervisor.request_revival())
        return supervisor.run()


def supervise_detached(state: StateFolder) -> int:
    """What the supervising process does: the plan is the one that `up` has left in the state folder."""
    plan = PLANS.validate_json(state.plan.read_bytes())
    return 0 if supervise(plan, state, os.environ, lambda _: None, attached=False) else 1


def sweep(state: StateFolder) -> tuple[str, ...]:
    """Ends what a platform left behind whose supervising process was killed; gives the names of what it ended."""
    found = snapshot.read(state.snapshot)
    names = []
    for step in reversed(found.steps if found else ()):
        if step.group and groups.members(step.group):
            groups.stop(step.group, grace_s=5)
            names.append(step.name)
    for leftover in (state.snapshot, state.valkey_socket):
        leftover.unlink(missing_ok=True)
    return tuple(names)


def start(
    plan: Plan, state: StateFolder, environ: Mapping[str, str], report: Report, *, begun: Callable[[], None] = lambda: None
) -> Snapshot:
    """Starts the platform in the background and follows it until it is ready. `begun` is called once others can follow it too.

    Raises:
        StartFailed: a required process died or was not ready in time; what had been started is stopped again.
    """
    state.make()
    state.plan.write_bytes(PLANS.dump_json(plan, indent=1))
    groups.rotate(state.log("supervisor"))
    command = [sys.executable, "-m", "parallelsearch.supervisor", str(state.root)]
    process = groups.start(command, environ, state.log("supervisor"))
    try:
        _await_first_snapshot(state, process)
        begun()
        return _follow_start(state, report)
    except BaseException:
        process.send_signal(signal.SIGTERM)
        _follow_end(state, process, report)
        raise


def revive(state: StateFolder, current: Snapshot, report: Report) -> Snapshot:
    """Has the dead ones of a running platform started again, and follows that."""
    before = {step.name: step.since for step in current.dead}
    with suppress(ProcessLookupError):
        os.kill(current.supervisor.pid, signal.SIGUSR1)
    deadline = time.monotonic() + APPEAR_S
    while (latest := running(state)) and time.monotonic() < deadline:
        if all(step.phase is not StepPhase.DIED or step.since != before.get(step.name) for step in latest.steps):
            break
        time.sleep(POLL_S)
    return _follow_start(state, report)


def follow(state: StateFolder, report: Report) -> Snapshot:
    """Waits with a platform that somebody else is starting."""
    return _follow_start(state, report)


def _await_first_snapshot(state: StateFolder, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + APPEAR_S
    while not ((found := snapshot.read(state.snapshot)) and found.supervisor.pid == process.pid):
        if process.poll() is not None or time.monotonic() > deadline:
            raise StartFailed(f"The supervising process did not come up, see {state.log('supervisor')}")
        time.sleep(POLL_S)


def _follow_start(state: StateFolder, report: Report) -> Snapshot:
    while True:
        found = snapshot.read(state.snapshot)
        alive = found is not None and groups.is_alive(found.supervisor)
        if found is not None:
            report(found)
        if found is None or found.phase is Phase.STOPPED or not alive:
            raise StartFailed(found.detail if found and found.detail else "The platform was stopped while it started.")
        if found.phase is Phase.READY:
            return found
        time.sleep(POLL_S)


def _follow_end(state: StateFolder, process: subprocess.Popen[bytes], report: Report) -> None:
    while process.poll() is None:
        if found := snapshot.read(state.snapshot):
            report(found)
        time.sleep(POLL_S)


def stop(state: StateFolder, report: Report) -> StopResult:
    """Stops the platform in reverse order and makes sure that none of its processes is left."""
    found = snapshot.read(state.snapshot)
    if found is None:
        return StopResult(())
    began = tuple(step.name for step in found.steps if step.group and groups.members(step.group))
    if groups.is_alive(found.supervisor):
        _ask_to_end(state, found, report)
    sweep_found = snapshot.read(state.snapshot) or found
    sweep(state)
    left = [step.name for step in sweep_found.steps if step.group and groups.members(step.group)]
    return StopResult(began, tuple(left))


def _ask_to_end(state: StateFolder, found: Snapshot, report: Report) -> None:
    """SIGTERM to the supervising process, which has the graces of all steps and ten seconds; then it is killed."""
    plan = read_plan(state.plan)
    patience_s = 10 + sum(step.stop_grace_s + 5 for step in plan.steps) if plan else 120
    with suppress(psutil.NoSuchProcess):
        psutil.Process(found.supervisor.pid).terminate()
    deadline = time.monotonic() + patience_s
    while groups.is_alive(found.supervisor) and time.monotonic() < deadline:
        if latest := snapshot.read(state.snapshot):
            report(latest)
        time.sleep(POLL_S)
    if groups.is_alive(found.supervisor):
        groups.stop(found.supervisor, grace_s=0)
    elif latest := snapshot.read(state.snapshot):
        report(latest)


def read_plan(path: Path) -> Plan | None:
    try:
        return PLANS.validate_json(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
