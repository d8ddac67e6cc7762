"""Coalesces concurrent requests into batches for the one thread that owns encoder and index.

All state lives on the event loop; the owner's thread gets a batch and gives back its rows. While a batch runs, queries
gather for the next one: alone, a query waits for nothing, and under load batches grow by themselves. Equal queries that
wait are one query. The queue is bounded: what does not fit is refused at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from parallelsearch.errors import DeadlineExceeded, Overloaded
from parallelsearch.rollout.types import Passage
from retriever import metrics
from retriever.searcher import BatchResult

Work = Callable[[Sequence[str], int], BatchResult]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """`max_batch` distinct queries run at once, `max_queued` may wait; a request waits at most `deadline_s`."""

    max_batch: int = 64
    max_queued: int = 8_192
    deadline_s: float = 25.0


@dataclass(frozen=True, slots=True)
class Timings:
    """Where a request's time went, in seconds; several batches add up."""

    queue_s: float = 0.0
    encode_s: float = 0.0
    search_s: float = 0.0
    load_s: float = 0.0


@dataclass(slots=True)
class _Waiting:
    """One distinct query and the requests that wait for it."""

    query: str
    top_k: int
    since: float
    answer: asyncio.Future[tuple[tuple[Passage, ...], Timings]]
    askers: int = 1


@dataclass(slots=True)
class Batcher:
    """`submit` from any task of one event loop, between `start` and `stop`."""

    work: Work
    limits: BatchLimits = field(default_factory=BatchLimits)
    _queue: dict[str, _Waiting] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _owner: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "retriever-owner"))
    _loop_task: asyncio.Task[None] | None = None
    _stopping: bool = False

    @property
    def running(self) -> bool:
        return self._loop_task is not None and not self._loop_task.done()

    def start(self) -> None:
        self._loop_task = asyncio.create_task(self._run(), name="retriever-batches")

    async def stop(self) -> None:
        """Answers everything that waits, then ends the owner's thread."""
        self._stopping = True
        self._wake.set()
        if self._loop_task is not None:
            await self._loop_task
        await asyncio.to_thread(self._owner.shutdown)

    async def submit(self, queries: Sequence[str], top_k: int) -> tuple[list[tuple[Passage, ...]], Timings]:
        """One tuple of at most `top_k` passages per query, in order.

        Raises:
            Overloaded: the queue has no room for these queries.
            DeadlineExceeded: they were not answered in time.
        """
        entries = self._enqueue(queries, top_k)
        try:
            async with asyncio.timeout(self.limits.deadline_s):
                answers = [await asyncio.shield(entry.answer) for entry in entries]
        except TimeoutError:
            raise DeadlineExceeded(
                f"Not answered within {self.limits.deadline_s:g} s. Send fewer queries at once, or try later."
            ) from None
        finally:
            self._leave(entries)
        return [passages[:top_k] for passages, _ in answers], _slowest([timings for _, timings in answers])

    def _enqueue(self, queries: Sequence[str], top_k: int) -> list[_Waiting]:
        new = {query for query in queries if query not in self._queue}
        if self._queue and len(self._queue) + len(new) > self.limits.max_queued:
            metrics.OVERLOADED.inc()
            raise Overloaded(f"{len(self._queue)} queries wait already. Try again in a moment.", retry_after_s=1)
        loop, now = asyncio.get_running_loop(), time.perf_counter()
        entries: dict[str, _Waiting] = {}
        for query in queries:
            if query in entries:
                continue
            entry = self._queue.get(query)
            if entry is None:
                entry = self._queue[query] = _Waiting(query, top_k, now, loop.create_future())
            else:
                entry.top_k, entry.askers = max(entry.top_k, top_k), entry.askers + 1
            entries[query] = entry
        metrics.QUEUE_DEPTH.set(len(self._queue))
        self._wake.set()
        return [entries[query] for query in queries]

    def _leave(self, entries: list[_Waiting]) -> None:
        """A query that nobody waits for any more is not searched."""
        for entry in {id(entry): entry for entry in entries}.values():
            entry.askers -= 1
            if entry.askers == 0 and self._queue.get(entry.query) is entry:
                del self._queue[entry.query]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                batch = [self._queue.pop(query) for query in list(self._queue)[: self.limits.max_batch]]
                started = time.perf_counter()
                metrics.QUEUE_DEPTH.set(len(self._queue))
                metrics.BATCH_SIZE.observe(len(batch))
                top_k = max(entry.top_k for entry in batch)
                try:
                    result = await loop.run_in_executor(self._owner, self.work, [entry.query for entry in batch], top_k)
                except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to those who asked
                    _fail(batch, error)
                else:
                    _answer(batch, result, started)


def _answer(batch: list[_Waiting], result: BatchResult, started: float) -> None:
    for entry, passages in zip(batch, result.rows, strict=True):
        metrics.QUEUE_SECONDS.observe(started - entry.since)
        if not entry.answer.done():
            took = result.timings
            entry.answer.set_result((passages, Timings(started - entry.since, took.encode_s, took.search_s, took.load_s)))


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for entry in batch:
        if not entry.answer.done():
            entry.answer.set_exception(error)
            entry.answer.exception()  # an answer that nobody awaits any more is no fault


def _slowest(timings: list[Timings]) -> Timings:
    """Of the query that waited longest: the batch that a request ended with."""
    return max(timings, key=lambda each: each.queue_s, default=Timings())
