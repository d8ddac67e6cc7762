"""Changes to indexes that were asked for over HTTP: one command at a time, in a process of its own; then the index is reloaded."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from parallelsearch.errors import Overloaded, ParallelSearchError
from parallelsearch.schemas.documents import WorkModel
from retriever.command_arguments import TRY_AGAIN

log = structlog.get_logger(__name__)

MAX_QUEUED = 64
TIMEOUT_S = 24 * 3600.0
_LAST_LINES = 3
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Job:
    """`arguments` are those of `python -m retriever index`. Equal jobs that wait are one."""

    index: str
    arguments: tuple[str, ...]


@dataclass(slots=True)
class DocumentJobs:
    """All methods belong to the event loop that serves."""

    reload: Callable[[str], Awaitable[object]]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the commands are told beside what this process was."""
    busy_s: float = 15.0
    """How long a change waits that another build kept from its index, before it is tried again."""
    _waiting: deque[Job] = field(default_factory=deque)
    _kept_off: list[Job] = field(default_factory=list)
    _last: dict[str, WorkModel] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="document-jobs")

    async def stop(self) -> None:
        """Ends the command that runs; what it had encoded stays for the next one."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, job: Job) -> WorkModel:
        """Raises Overloaded where too many wait."""
        if job not in self._waiting:
            if len(self._waiting) >= MAX_QUEUED:
                raise Overloaded("Too many changes to indexes wait already. Try again in a minute.", retry_after_s=60)
            self._waiting.append(job)
        self._last[job.index] = WorkModel(state="queued")
        self._wake.set()
        return self._last[job.index]

    def state_of(self, index: str) -> WorkModel:
        return self._last.get(index, WorkModel())

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self.busy_s if self._kept_off else None)
            self._wake.clear()
            self._waiting.extend(job for job in self._kept_off if job not in self._waiting)
            self._kept_off.clear()
            while self._waiting:
                await self._do(self._waiting.popleft())

    async def _do(self, job: Job) -> None:
        self._last[job.index] = WorkModel(state="running")
        try:
            code, said = await asyncio.wait_for(self._command(job), TIMEOUT_S)
            if code == 0:
                await self.reload(job.index)
        except ParallelSearchError as error:
            code, said = 1, error.detail
        except Exception as error:  # noqa: BLE001  # whatever it is, the changes behind this one are made
            code, said = 1, f"{type(error).__name__}: {error}"
        if any(waiting.index == job.index for waiting in self._waiting):
            self._last[job.index] = WorkModel(state="queued")
        elif code == TRY_AGAIN:
            self._kept_off.append(job)
            self._last[job.index] = WorkModel(state="queued", detail=said)
        else:
            self._last[job.index] = WorkModel(state="done") if code == 0 else WorkModel(state="failed", detail=said)
        log.info("documents_changed", index=job.index, code=code)

    async def _command(self, job: Job) -> tuple[int, str]:
        """Exit code and last words. A process group of its own, so that its readers end with it."""
        command = [sys.executable, "-m", "retriever", "index", *job.arguments]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **self.environment},
        )
        assert process.stderr is not None
        lines: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            async for line in process.stderr:
                lines.append(line.decode("utf-8", "replace").strip())
            code = await process.wait()
        finally:
            await _ended(process)
        return code, " ".join(line.removeprefix("[index] ") for line in lines)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Ends what runs still, with all that it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait_for(process.wait(), _GRACE_S)
