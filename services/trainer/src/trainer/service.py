"""Training runs: submitting, advancing, cancelling. All that is known of them is in store and launchers."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path
from threading import Lock

import structlog

from parallelsearch.errors import InvalidInput, NotFound, ParallelSearchError
from parallelsearch.schemas.training import DryRun, LauncherName, ReinforcementSpec, RunState, SupervisedSpec
from trainer.exports import drop_old, drop_torn
from trainer.jobs import JobBuilder
from trainer.last_words import named_error, shown
from trainer.launchers.interface import Launcher, LaunchRefused, Status, read_log
from trainer.store import Run, Store, Unread, now

log = structlog.get_logger(__name__)

LAST_LINES = 50
TAIL_BYTES = 256_000
Spec = ReinforcementSpec | SupervisedSpec


@dataclass(frozen=True)
class TrainingRuns:
    """`launchers` holds those that this trainer is set up for; `max_running` bounds runs of the local one; `taking` is held while
    a run is taken, `starting` while one is started; `ending` holds runs that are just being ended, which only those who do so take
    to their final state; `ended` says how of those whose processes were ended and that are not recorded yet."""

    store: Store
    jobs: JobBuilder
    launchers: Mapping[LauncherName, Launcher]
    max_running: int = 1
    ending: set[str] = field(default_factory=set)
    ended: dict[str, Status] = field(default_factory=dict)
    taking: Lock = field(default_factory=Lock)
    starting: Lock = field(default_factory=Lock)

    def dry_run(self, spec: Spec) -> DryRun:
        """What a submission would start. Paths are checked, resources are not."""
        job = self.jobs.build("dry-run", spec)
        self.jobs.check_resumed(spec)
        self.jobs.check_data(spec)
        command = list(job.command)
        settings = [f"{name}={shlex.quote(value)}" for name, value in job.environment.items()]
        return DryRun(command=command, environment=dict(job.environment), shell=" ".join([*settings, shlex.join(command)]))

    def submit(self, spec: Spec, idempotency_key: str | None = None) -> Run:
        """Stores the run as queued. The same key gives the run it gave before, whatever has become of its files.

        Raises:
            InvalidInput: paths, resources or key do not do; nothing is stored then.
        """
        if idempotency_key is not None and (earlier := self.store.with_key(idempotency_key)):
            return _same(earlier, spec)
        run = Run(f"run-{uuid.uuid4().hex[:12]}", RunState.QUEUED, spec, now(), idempotency_key=idempotency_key)
        job = self.jobs.build(run.id, spec)
        self._launcher(spec.launcher).check(job)
        self.jobs.check_resumed(spec)
        self.jobs.check_data(spec)
        self.jobs.check_reward(job, spec)
        with self.taking:
            if idempotency_key is not None and (earlier := self.store.with_key(idempotency_key)):
                return _same(earlier, spec)
            self._check_writers(run)
            return _same(self.store.add(run), spec)

    def _check_writers(self, run: Run) -> None:
        """Checkpoints have one writer at a time."""
        if run.spec.checkpoints.resume_from is None:
            return
        checkpoints = self.jobs.checkpoints(run.id, run.spec)
        for other in self.store.list(RunState.QUEUED, RunState.RUNNING):
            if self._writes_to(other, checkpoints):
                raise InvalidInput(
                    f"checkpoints.resume_from: run {other.id} is {other.state} and writes these checkpoints; "
                    "wait until it ends, or cancel it."
                )

    def _writes_to(self, run: Run, checkpoints: Path) -> bool:
        try:
            return self.jobs.checkpoints(run.id, run.spec) == checkpoints
        except InvalidInput:
            return False

    def get(self, run_id: str) -> Run:
        if (run := self.store.get(run_id)) is None:
            raise _no_run(run_id)
        return run

    def cancel(self, run_id: str) -> Run | Unread:
        """Ends a run, of another version too; one that has ended already stays as it is."""
        self.end(self._find(run_id), RunState.CANCELLED, "Cancelled by an administrator.")
        return self._find(run_id)

    def _find(self, run_id: str) -> Run | Unread:
        if (run := self.store.find(run_id)) is None:
            raise _no_run(run_id)
        return run

    def end(self, run: Run | Unread, state: RunState, detail: str) -> None:
        """Ends a run's processes, whatever it is doing, and takes it to a final state.

        Raises:
            LauncherUnavailable, LaunchRefused: they cannot be ended now; the run stays as it is, and may be ended again.
        """
        while not run.state.is_final:
            self.ending.add(run.id)
            try:
                # A start that is under way is waited for: what it starts would outlive the run.
                with self.starting if run.state is RunState.QUEUED else nullcontext():
                    moved = self._end(self._find(run.id), state, detail)
            finally:
                self.ending.discard(run.id)
            if moved:
                return
            run = self._find(run.id)

    def _end(self, run: Run | Unread, state: RunState, detail: str) -> bool:
        """False if the run is somewhere else meanwhile. A queued one has processes if its start was tried and not recorded."""
        files = self.jobs.files(run.id)
        if run.state is RunState.RUNNING or (run.state is RunState.QUEUED and files.folder.exists()):
            launcher = self._launcher(run.launcher)
            if run.state is RunState.RUNNING:
                found = launcher.status(run.handle, files)
                if found.state.is_final and run.id not in self.ended:
                    return self._record(run, found)
            # Before they are ended, so that nobody takes it for their own doing.
            self.ended[run.id] = Status(state, detail)
            try:
                launcher.cancel(run.handle, files)
            except ParallelSearchError:
                self.ended.pop(run.id, None)
                raise
        return self._record(run, Status(state, detail), ordered=True)

    def _record(self, run: Run | Unread, status: Status, *, ordered: bool = False) -> bool:
        """Takes a run to the final state that it has reached by itself or as `ordered`. False if it is somewhere else meanwhile."""
        # First, since it may make the room that the record of the end takes.
        if isinstance(run, Run):
            self._tidy(run, ended=True)
        lines = self._last_lines(run) if status.state is RunState.FAILED else ()
        error = "" if ordered else named_error(lines)
        detail = f"{status.detail} In its log: {error}".strip() if error else status.detail
        moved = self.store.move(run, status.state, detail=detail, last_log_lines=tuple(lines[-LAST_LINES:]))
        self.ended.pop(run.id, None)
        return moved

    def read_log(self, run: Run | Unread, offset: int) -> bytes:
        """What lies with its files where this trainer has no such launcher. Raises LauncherUnavailable: its cluster is away."""
        files, launcher = self.jobs.files(run.id), self.launchers.get(run.launcher)
        return launcher.logs(run.handle, files, offset) if launcher else read_log(files, offset)

    def log_bytes(self, run: Run | Unread) -> int:
        """How much of the run's output lies with its files."""
        path = self.jobs.files(run.id).log
        return path.stat().st_size if path.is_file() else 0

    def advance(self) -> None:
        """One round: asks the launchers about running runs, then starts queued ones in order while there is room."""
        for run in self.store.list(RunState.RUNNING):
            self.apart(self._refresh, run)
        for run in self.store.list(RunState.QUEUED):
            self.apart(self._start if self._has_room(run) else self._wait, run)

    def apart(self, step: Callable[[Run], None], run: Run) -> None:
        """Takes the step with one run; what goes wrong with it holds up no other, shows in it and is tried again next round."""
        try:
            step(run)
        except ParallelSearchError as error:
            log.warning("run_not_advanced", run=run.id, detail=error.detail)
            with suppress(ParallelSearchError):
                self.store.note(run, error.detail)
        except Exception:
            log.exception("run_not_advanced", run=run.id)

    def _has_room(self, run: Run) -> bool:
        if run.spec.launcher is not LauncherName.LOCAL:
            return True
        running = [other for other in self.store.list(RunState.RUNNING) if other.spec.launcher is LauncherName.LOCAL]
        return len(running) < self.max_running

    def _wait(self, run: Run) -> None:
        if run.id in self.ended:
            self._start(run)
        else:
            self.store.note(run, f"It waits until fewer than {self.max_running} local runs are running (TRAINER_MAX_RUNNING).")

    def _start(self, run: Run) -> None:
        launcher = self._launcher(run.spec.launcher)
        with self.starting:
            if self.get(run.id).state is not RunState.QUEUED:
                return
            if ended := self.ended.get(run.id):
                self._record(run, ended, ordered=True)
                return
            try:
                job = self.jobs.build(run.id, run.spec)
                self.jobs.prepare(job, run.spec)
                handle = launcher.start(job)
            except InvalidInput as error:
                self._end(run, RunState.FAILED, error.detail)
                return
            except OSError as error:
                why = f"the disk of {self.jobs.folder(run.id)} is full" if error.errno == ENOSPC else str(error)
                self._end(run, RunState.FAILED, f"The run cannot be laid out: {why}.")
                return
            self.store.set_handle(run, handle)
            self.store.move(run, RunState.RUNNING)

    def _refresh(self, run: Run) -> None:
        status = self._launcher(run.spec.launcher).status(run.handle, self.jobs.files(run.id))
        if not status.state.is_final:
            self._tidy(run, ended=False)
            self.store.note(run, status.detail)
        # Whoever ends the run says what has become of it.
        elif run.id not in self.ending:
            ended = self.ended.get(run.id)
            self._record(run, ended or status, ordered=ended is not None)

    def _tidy(self, run: Run, *, ended: bool) -> None:
        """Of what a run goes on with, only one that runs takes models away."""
        try:
            checkpoints = self.jobs.checkpoints(run.id, run.spec)
            if run.state is RunState.RUNNING:
                drop_old(checkpoints, run.spec.checkpoints.keep)
            if ended and self.jobs.folder(run.id).exists():
                drop_torn(checkpoints)
        except (InvalidInput, OSError) as error:
            log.warning("checkpoints_not_tidied", run=run.id, detail=str(error))

    def _last_lines(self, run: Run | Unread) -> Sequence[str]:
        """Those of the last `TAIL_BYTES`, the first of which may be half a line."""
        tail, offset = b"", max(self.log_bytes(run) - TAIL_BYTES, 0)
        while part := self.read_log(run, offset):
            offset += len(part)
            tail = (tail + part)[-TAIL_BYTES:]
        return shown(tail) if tail else ()

    def _launcher(self, name: LauncherName) -> Launcher:
        launcher = self.launchers.get(name)
        if launcher is None:
            known = ", ".join(self.launchers)
            raise LaunchRefused(f"launcher: this trainer is not set up for {name} (it has {known}).")
        return launcher


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"There is no training run {run_id}. GET /v1/training-runs lists them.")


def _same(run: Run, spec: Spec) -> Run:
    """The run that has the key of another submission, if that was for the same specification."""
    if run.spec != spec:
        raise InvalidInput(f"Idempotency-Key: {run.idempotency_key} was used for another specification (run {run.id}).")
    return run
