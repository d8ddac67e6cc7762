"""Runs the jobs of an evaluation: many at once, each finished trajectory on disk before the next is begun in its place.

What is finished already is not asked again, so that a run that was killed goes on where it was. A platform that answers
nothing any more stops the run with a sentence instead of filling its files with failures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.evaluation.asking import Asker
from parallelsearch.evaluation.plan import Job, Limits
from parallelsearch.evaluation.store import OUTSIDE_FAILURES, RunFolder
from parallelsearch.schemas.answers import TrajectoryModel

FAILURES_IN_A_ROW = 16

Finished = Callable[[Job, TrajectoryModel], None]


@dataclass(slots=True)
class _Health:
    failures_in_a_row: int = 0

    def note(self, trajectory: TrajectoryModel) -> None:
        """Raises UpstreamUnavailable once too many rollouts in a row failed for reasons outside of the policy."""
        if trajectory.stop_reason not in OUTSIDE_FAILURES:
            self.failures_in_a_row = 0
            return
        self.failures_in_a_row += 1
        if self.failures_in_a_row >= FAILURES_IN_A_ROW:
            raise UpstreamUnavailable(
                f"{FAILURES_IN_A_ROW} rollouts in a row ended with {trajectory.stop_reason}: {trajectory.detail} "
                "Mend it and run the same command again; it goes on where it stopped."
            )


def open_jobs(folder: RunFolder, jobs: Sequence[Job]) -> list[Job]:
    """The jobs that are not finished in the folder, half-written lines cut off."""
    finished: dict[str, set[str]] = {}
    for job in jobs:
        if job.cell.slug not in finished:
            folder.mend(job.cell)
            finished[job.cell.slug] = folder.finished(job.cell)
    return [job for job in jobs if job.question.id not in finished[job.cell.slug]]


async def run_jobs(
    jobs: Sequence[Job], asker: Asker, folder: RunFolder, limits: Limits, *, concurrency: int, finished: Finished
) -> None:
    """Runs all jobs, `concurrency` at a time.

    Raises:
        ParallelSearchError: the platform answers no more. What is finished is on disk.
    """
    remaining, writing, health = iter(jobs), asyncio.Lock(), _Health()

    async def work(remaining: Iterator[Job]) -> None:
        for job in remaining:
            trajectory = await asker.ask(job, limits)
            async with writing:
                await asyncio.to_thread(folder.append, job, trajectory)
            finished(job, trajectory)
            health.note(trajectory)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(jobs))):
                group.create_task(work(remaining))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
