"""The state of the platform as the supervising process writes it down, and as every other command reads it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from parallelsearch.supervisor.groups import Identity


class StepPhase(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DONE = "done"
    DIED = "died"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True)
class StepState:
    """One step as it stands. `since` is when its phase began (seconds since the epoch); `detail` what it last reported."""

    name: str
    phase: StepPhase = StepPhase.WAITING
    since: float = 0.0
    group: Identity | None = None
    url: str = ""
    log: str = ""
    required: bool = True
    task: bool = False
    exit_code: int | None = None
    detail: str = ""

    @property
    def death(self) -> str:
        """How and when it died, as a sentence's end."""
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        code = self.exit_code
        how = "unknown exit code" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"died at {when} with {how}, see {self.log}"


@dataclass(frozen=True)
class Snapshot:
    """`detail` says what a failed start ran into; `ready_after_s` is of the last start, which may have been of the dead alone."""

    supervisor: Identity
    phase: Phase
    steps: tuple[StepState, ...]
    started_at: float
    url: str = ""
    ready_after_s: float | None = None
    detail: str = ""

    @property
    def dead(self) -> tuple[StepState, ...]:
        return tuple(step for step in self.steps if step.phase is StepPhase.DIED)


ADAPTER = TypeAdapter(Snapshot)


def write(path: Path, snapshot: Snapshot) -> None:
    """Replaces the file at once, so that a reader never sees half of it."""
    draft = path.with_suffix(".tmp")
    draft.write_bytes(ADAPTER.dump_json(snapshot, indent=1))
    draft.replace(path)


def read(path: Path) -> Snapshot | None:
    """The last snapshot, or None where there is none (or one of another version of the project)."""
    try:
        return ADAPTER.validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
