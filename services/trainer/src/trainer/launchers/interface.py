"""What a launcher does. The truth about a run lies with the launcher, so that a restarted trainer finds its runs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parallelsearch.errors import InvalidInput, UpstreamUnavailable
from parallelsearch.schemas.training import ResourcesSpec, RunState

LOG = "output.log"
TEE = 'mkdir -p "$(dirname "$0")"; { "$@" 2>&1; echo $? > "$0.code"; } | tee -a "$0"; exit "$(cat "$0.code")"'


class LaunchRefused(InvalidInput):
    """The launcher will not take the run; the sentence says why and what to do."""

    code, title = "launch-refused", "Launch refused"


class LauncherUnavailable(UpstreamUnavailable):
    """The cluster behind a launcher cannot be reached now."""


class RunFiles(Protocol):
    """What is needed to ask about a run that was started: never its model or data, which may have gone since."""

    @property
    def run_id(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def log(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class RunFolder:
    run_id: str
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / LOG


@dataclass(frozen=True, slots=True)
class Job:
    """A command to run for a training run. `folder` holds all that the run reads and writes."""

    run_id: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    resources: ResourcesSpec

    @property
    def log(self) -> Path:
        return self.folder / LOG


@dataclass(frozen=True, slots=True)
class Status:
    """`queued` until the launcher has started it; `detail` is the launcher's own word on a failure."""

    state: RunState
    detail: str = ""


class Launcher(Protocol):
    def check(self, resources: ResourcesSpec) -> None:
        """Raises LaunchRefused where such a run can never start here."""
        ...

    def start(self, job: Job) -> str:
        """Starts the job, or finds it if it was started already; gives back its handle.

        Raises:
            LaunchRefused: it is not taken. LauncherUnavailable: try again later.
        """
        ...

    def status(self, handle: str, run: RunFiles) -> Status:
        """Raises LauncherUnavailable if nothing can be said now."""
        ...

    def cancel(self, handle: str, run: RunFiles) -> None:
        """Ends all of it; returns when it is over or the launcher has taken the order. Raises LauncherUnavailable: it has not."""
        ...

    def logs(self, handle: str, run: RunFiles, offset: int) -> bytes:
        """What the run wrote from byte `offset` on, at most a megabyte; empty if there is nothing new."""
        ...


def with_log(job: Job) -> list[str]:
    """The command for where the trainer does not see its output: what it says goes to the run's log too; the exit code stays."""
    return ["/bin/sh", "-c", TEE, str(job.log), *job.command]


def exit_code_file(run: RunFiles) -> Path:
    """Where `with_log` leaves the command's exit code."""
    return run.log.with_name(f"{run.log.name}.code")
