"""Says how a start or a stop goes: a live line on a terminal, plain lines at most five seconds apart elsewhere.

What processes wrote into their logs is shown as it is, never read as markup.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from parallelsearch.supervisor.snapshot import Snapshot, StepPhase, StepState

BEAT_S = 5.0
TAIL_BYTES = 16_384
ANNOUNCED = {
    StepPhase.STARTING: "starting",
    StepPhase.READY: "ready",
    StepPhase.DONE: "done",
    StepPhase.STOPPING: "stopping",
    StepPhase.STOPPED: "stopped",
}
NOT_YET = ("starting: ", "failed: ")
"""How what a service says of its checks begins, as `probes.describe` gives it, while it is not ready."""
BUSY = (StepPhase.STARTING, StepPhase.STOPPING)


def last_lines(log: str, count: int) -> list[str]:
    """The last lines of a log that say something, without control characters."""
    try:
        with Path(log).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    # A progress bar rewrites its line; what it said last is what counts.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    kept = [Text.from_ansi(line).plain.strip() for line in lines]
    return [printable(line) for line in kept if line][-count:]


def printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())


class Watch:
    """Given snapshots as they come, prints what changed; `close` ends the live line."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.seen: dict[str, tuple[StepPhase, float]] = {}
        self.spoke_at = time.monotonic()
        self.status = console.status("") if console.is_terminal else None
        if self.status:
            self.status.start()

    def update(self, snapshot: Snapshot) -> None:
        for step in snapshot.steps:
            self._announce(step)
        busy = [step for step in snapshot.steps if step.phase in BUSY]
        if not busy:
            return
        text = describe_wait(busy)
        if self.status:
            self.status.update(Text(shorten(text, self.console.width - 4)))
        elif time.monotonic() - self.spoke_at >= BEAT_S:
            self.say(shorten(text, 200))

    def close(self) -> None:
        if self.status:
            self.status.stop()
            self.status = None

    def say(self, text: str, style: str = "") -> None:
        self.spoke_at = time.monotonic()
        self.console.print(Text(text, style), soft_wrap=True)

    def _announce(self, step: StepState) -> None:
        before = self.seen.get(step.name)
        if before == (step.phase, step.since):
            return
        self.seen[step.name] = (step.phase, step.since)
        if step.phase is StepPhase.DIED:
            self.say(f"  {step.name:<10} {step.detail or step.death}", "red")
        elif step.phase in ANNOUNCED and (before or step.phase in BUSY):
            took = f" after {step.since - before[1]:.0f} s" if before and step.phase in {StepPhase.READY, StepPhase.DONE} else ""
            self.say(f"  {step.name:<10} {ANNOUNCED[step.phase]}{took}")


def describe_wait(busy: list[StepState]) -> str:
    """Who is waited for, for how long, and what the one that takes longest waits for itself, else the last line of its log."""
    names = ", ".join(step.name for step in busy)
    slowest = min(busy, key=lambda step: step.since)
    line = [printable(slowest.detail)] if slowest.detail.startswith(NOT_YET) else last_lines(slowest.log, 1)
    said = f" · {slowest.name}: {line[0]}" if line else ""
    return f"  waiting for {names} ({time.time() - slowest.since:.0f} s){said}"


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
