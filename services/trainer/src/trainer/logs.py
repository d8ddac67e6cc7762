"""A run's output as a stream: all there is, or as it comes until the run has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from parallelsearch.errors import UpstreamUnavailable
from trainer.service import TrainingRuns
from trainer.store import Run

FOLLOW_EVERY_S = 0.5


async def begin(runs: TrainingRuns, run: Run) -> None:
    """Before the answer begins, which is then a success. Raises LauncherUnavailable: the log cannot be read now."""
    await asyncio.to_thread(runs.read_log, run, 0)


async def read_all(runs: TrainingRuns, run: Run, offset: int = 0) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(runs.read_log, run, offset):
        offset += len(part)
        yield part


async def follow(runs: TrainingRuns, run: Run) -> AsyncIterator[bytes]:
    """While the cluster is away nothing comes; while the record of runs is, the run has not ended."""
    offset = 0
    while True:
        # The state is read before the log, so that nothing written before the end is missed.
        with suppress(UpstreamUnavailable):
            run = await asyncio.to_thread(runs.get, run.id)
        # A log that somebody has cut is followed from its new beginning.
        if 0 < await asyncio.to_thread(runs.log_bytes, run) < offset:
            offset = 0
        with suppress(UpstreamUnavailable):
            async for part in read_all(runs, run, offset):
                offset += len(part)
                yield part
        if run.state.is_final:
            return
        await asyncio.sleep(FOLLOW_EVERY_S)
