"""Training runs: submitting, advancing, cancelling. All that is known of them is in store and launchers."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from parallelsearch.errors import InvalidInput, NotFound
from parallelsearch.schemas.training import DryRun, LauncherName, ReinforcementSpec, RunState, SupervisedSpec
from trainer.command import redacted
from trainer.exports import drop_old, drop_torn
from trainer.jobs import JobBuilder
from trainer.launchers.interface import Job, Launcher, LauncherUnavailable, LaunchRefused, Status
from trainer.store import Run, Store, now

log = structlog.get_logger(__name__)

LAST_LINES = 50
TAIL_BYTES = 64_000
Spec = ReinforcementSpec | SupervisedSpec


@dataclass(frozen=True)
class TrainingRuns:
    """`launchers` holds those that this trainer is set up for; `max_running` bounds runs of the local one."""

    store: Store
    jobs: JobBuilder
    launchers: Mapping[LauncherName, Launcher]
    max_running: int = 1

    def dry_run(self, spec: Spec) -> DryRun:
        """What a submission would start. Paths are checked, resources are not."""
        job = self.jobs.build("dry-run", spec)
        self.jobs.check_data(spec)
        command = redacted(job.command)
        settings = [f"{name}={shlex.quote(value)}" for name, value in job.environment.items()]
        return DryRun(command=command, environment=dict(job.environment), shell=" ".join([*settings, shlex.join(command)]))

    def submit(self, spec: Spec, idempotency_key: str | None = None) -> Run:
        """Stores the run as queued. The same key gives the run it gave before.

        Raises:
            InvalidInput: paths, resources or key do not do; nothing is stored then.
        """
        run = Run(f"run-{uuid.uuid4().hex[:12]}", RunState.QUEUED, spec, now(), idempotency_key=idempotency_key)
        self.jobs.build(run.id, spec)
        self.jobs.check_data(spec)
        self._launcher(spec.launcher).check(spec.resources)
        stored = self.store.add(run)
        if stored.id != run.id and stored.spec != spec:
            raise InvalidInput(f"Idempotency-Key: {idempotency_key} was used for another specification (run {stored.id}).")
        return stored

    def get(self, run_id: str) -> Run:
        run = self.store.get(run_id)
        if run is None:
            raise NotFound(f"There is no training run {run_id}. GET /v1/training-runs lists them.")
        return run

    def cancel(self, run_id: str) -> Run:
        """Ends a run; one that has ended already stays as it is."""
        run = self.get(run_id)
        self.end(run, RunState.CANCELLED, "Cancelled by an administrator.")
        return self.get(run_id)

    def end(self, run: Run, state: RunState, detail: str) -> None:
        """Takes the run to a final state, whatever it is doing, and ends its processes."""
        if self.store.move(run, state, detail=detail) and run.state is RunState.RUNNING:
            self._launcher(run.spec.launcher).cancel(run.handle, self._job(run))

    def read_log(self, run: Run, offset: int) -> bytes:
        return self._launcher(run.spec.launcher).logs(run.handle, self._job(run), offset)

    def advance(self) -> None:
        """One round: asks the launchers about running runs, then starts queued ones in order while there is room."""
        for run in self.store.list(RunState.RUNNING):
            self._refresh(run)
        for run in self.store.list(RunState.QUEUED):
            if self._has_room(run):
                self._start(run)

    def _has_room(self, run: Run) -> bool:
        if run.spec.launcher is not LauncherName.LOCAL:
            return True
        running = [other for other in self.store.list(RunState.RUNNING) if other.spec.launcher is LauncherName.LOCAL]
        return len(running) < self.max_running

    def _start(self, run: Run) -> None:
        try:
            job = self._job(run)
            self.jobs.prepare(job, run.spec)
            handle = self._launcher(run.spec.launcher).start(job)
        except LauncherUnavailable as error:
            log.warning("launcher_unavailable", run=run.id, detail=error.detail)
            return
        except (InvalidInput, OSError) as error:
            self.store.move(run, RunState.FAILED, detail=str(error))
            return
        self.store.set_handle(run, handle)
        if not self.store.move(run, RunState.RUNNING):
            self._launcher(run.spec.launcher).cancel(handle, job)

    def _refresh(self, run: Run) -> None:
        try:
            job = self._job(run)
            status = self._launcher(run.spec.launcher).status(run.handle, job)
        except LauncherUnavailable as error:
            log.warning("launcher_unavailable", run=run.id, detail=error.detail)
            return
        except InvalidInput as error:
            job, status = None, Status(RunState.FAILED, error.detail)
        if job is not None:
            self._tidy(run, ended=status.state.is_final)
        if status.state.is_final:
            lines = self._last_lines(run, job) if job and status.state is RunState.FAILED else ()
            self.store.move(run, status.state, detail=status.detail, last_log_lines=lines)

    def _tidy(self, run: Run, *, ended: bool) -> None:
        try:
            checkpoints = self.jobs.checkpoints(run.id, run.spec)
            drop_old(checkpoints, run.spec.checkpoints.keep)
            if ended:
                drop_torn(checkpoints)
        except OSError as error:
            log.warning("checkpoints_not_tidied", run=run.id, detail=str(error))

    def _last_lines(self, run: Run, job: Job) -> tuple[str, ...]:
        launcher, tail, offset = self._launcher(run.spec.launcher), b"", 0
        while part := launcher.logs(run.handle, job, offset):
            offset += len(part)
            tail = (tail + part)[-TAIL_BYTES:]
        return tuple(tail.decode(errors="replace").splitlines()[-LAST_LINES:])

    def _job(self, run: Run) -> Job:
        return self.jobs.build(run.id, run.spec)

    def _launcher(self, name: LauncherName) -> Launcher:
        launcher = self.launchers.get(name)
        if launcher is None:
            known = ", ".join(self.launchers)
            raise LaunchRefused(f"launcher: this trainer is not set up for {name} (it has {known}).")
        return launcher
