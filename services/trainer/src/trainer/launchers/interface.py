"""What a launcher does. The truth about a run lies with the launcher, so that a restarted trainer finds its runs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parallelsearch.errors import InvalidInput, UpstreamUnavailable
from parallelsearch.schemas.training import ResourcesSpec, RunState

LOG = "output.log"
MAX_READ = 1_000_000
# Once the command is over, what it left behind may hold its output open for DRAIN_S and no longer.
DRAIN_S = 3
TEE = (
    'mkdir -p "$(dirname "$0")"; echo "    " > "$0.code"; at=$(mktemp -d); mkfifo "$at/said"; tee -a "$0" < "$at/said" & tee=$!; '
    '"$@" > "$at/said" 2>&1; code=$?; echo $code 1<> "$0.code"; rm -r "$at"; '
    f"{{ sleep {DRAIN_S}; kill $tee; }} > /dev/null 2>&1 & timer=$!; wait $tee 2> /dev/null; kill $timer 2> /dev/null; exit $code"
)


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
    """`queued` until the launcher has started it; `detail` is the launcher's own word on a failure or on what is waited for."""

    state: RunState
    detail: str = ""


class Launcher(Protocol):
    def check(self, job: Job) -> None:
        """Raises LaunchRefused where such a run cannot start here."""
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


def read_log(run: RunFiles, offset: int) -> bytes:
    """As `Launcher.logs`, from the run's files."""
    try:
        with run.log.open("rb") as file:
            file.seek(offset)
            return file.read(MAX_READ)
    except FileNotFoundError:
        return b""


def without_cluster(run: RunFiles, unknown: str) -> Status:
    """What became of a run that its cluster does not know any more: its exit code, if it lies with its files, else failed."""
    try:
        code = int(exit_code_file(run).read_text())
    except (OSError, ValueError):
        return Status(RunState.FAILED, unknown)
    return Status(RunState.SUCCEEDED) if code == 0 else Status(RunState.FAILED, f"The run ended with exit code {code}.")
