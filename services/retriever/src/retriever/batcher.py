"""Coalesces concurrent requests into batches for the one thread that owns encoder and index.

All state lives on the event loop; the owner's thread gets a batch and gives back its rows. While a batch runs, queries
gather for the next one: alone, a query waits for nothing, and under load batches grow by themselves. After a batch of many,
the next start is held back for a moment (`Window`), so that the callers just answered make it into one batch. A query that
waits or runs already is not run twice. The queue is bounded: what does not fit is refused at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from parallelsearch.errors import DeadlineExceeded, Overloaded, ParallelSearchError
from parallelsearch.rollout.types import Passage
from retriever import metrics
from retriever.searcher import Ask, BatchResult
from retriever.waiting import Entry, FairQueue, Ticket

Work = Callable[[Sequence[Ask], int], BatchResult]
T = TypeVar("T")
Gone = Callable[[], Awaitable[bool]]

_HANG_UP_CHECK_S = 1.0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """`max_batch` distinct queries run at once, `max_queued` may wait; a request waits at most `deadline_s`."""

    max_batch: int = 64
    max_queued: int = 8_192
    deadline_s: float = 110.0
    window_s: float = 0.004


@dataclass(frozen=True, slots=True)
class Timings:
    """Where a request's time went, in seconds: of the query that waited longest, and of the batch it ran in."""

    queue_s: float = 0.0
    encode_s: float = 0.0
    search_s: float = 0.0
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answered:
    """One tuple of passages per query, in the order of the queries."""

    rows: list[tuple[Passage, ...]]
    timings: Timings
    fingerprints: frozenset[str]
    """Of the indexes that answered: more than one only if a new one was swapped in meanwhile."""


class CallerGone(ParallelSearchError):
    """The caller hung up. Nobody reads this answer; its status keeps it apart in logs and metrics."""

    code, title, status = "caller-gone", "Caller gone", 499


class Batcher:
    """`submit` from any task of one event loop, between `start` and `stop`."""

    def __init__(self, work: Work, limits: BatchLimits | None = None) -> None:
        self.work = work
        self.limits = limits or BatchLimits()
        self._queue = FairQueue()
        self._running: dict[Ask, Entry] = {}
        self._wake = asyncio.Event()
        self._owner = ThreadPoolExecutor(1, "retriever-owner")
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._pace = Pace()

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retriever-batches")

    async def stop(self) -> None:
        """Answers everything that waits, then ends the owner's thread."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        await asyncio.to_thread(self._owner.shutdown)

    async def submit(
        self, queries: Sequence[Ask], top_k: int, *, deadline_s: float | None = None, gone: Gone | None = None
    ) -> Answered:
        """At most `top_k` passages per query. `gone` is asked now and then whether the caller still listens.

        Raises:
            Overloaded: the queue has no room for these queries or would not reach them in time, or this is not running.
            DeadlineExceeded: they were not answered in time.
            CallerGone: nobody listens any more.
        """
        if not self.running:
            raise Overloaded(
                "The retriever does not search yet, or no more. Try another replica, or again in a moment.", retry_after_s=5
            )
        deadline_s, asked = min(deadline_s or self.limits.deadline_s, self.limits.deadline_s), time.perf_counter()
        ticket = Ticket(asyncio.get_running_loop().create_future())
        entries = self._admit(queries, top_k, ticket, deadline_s)
        try:
            await _settled(ticket, deadline_s, gone)
        finally:
            if ticket.open:
                self._leave(ticket, entries.values())
        found = [entries[query] for query in queries]
        fingerprints = frozenset(entry.fingerprint for entry in found)
        return Answered([entry.passages[:top_k] for entry in found], _slowest(entries.values(), asked), fingerprints)

    async def on_owner(self, task: Callable[[], T]) -> T:
        """Runs `task` on the owner's thread, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._owner, task)

    def _admit(self, queries: Sequence[Ask], top_k: int, ticket: Ticket, deadline_s: float) -> dict[Ask, Entry]:
        entries: dict[Ask, Entry] = {}
        new: list[Ask] = []
        for query in dict.fromkeys(queries):
            entry = self._joinable(query, top_k)
            if entry is None:
                new.append(query)
            else:
                entries[query] = entry
        self._refuse_if_full(len(new), deadline_s)
        now = time.perf_counter()
        for position, query in enumerate(new):
            entries[query] = Entry(query, top_k, now)
            self._queue.add(entries[query], position)
        for entry in entries.values():
            entry.top_k = max(entry.top_k, top_k)
            entry.tickets.append(ticket)
        ticket.open = len(entries)
        metrics.QUEUE_DEPTH.set(len(self._queue))
        self._wake.set()
        return entries

    def _joinable(self, query: Ask, top_k: int) -> Entry | None:
        """The same query if it waits, or runs with as many passages."""
        running = self._running.get(query)
        if running is not None and running.top_k >= top_k:
            return running
        return self._queue.find(query)

    def _refuse_if_full(self, new: int, deadline_s: float) -> None:
        waiting = len(self._queue)
        if not new or not waiting:
            return
        wait_s = self._pace.seconds_for(waiting)
        if waiting + new > self.limits.max_queued or wait_s > deadline_s:
            metrics.OVERLOADED.inc()
            raise Overloaded(f"{waiting} queries wait already. Try again in a moment.", retry_after_s=min(max(wait_s / 2, 1), 30))

    def _leave(self, ticket: Ticket, entries: Collection[Entry]) -> None:
        """A query that nobody waits for any more is not searched."""
        for entry in entries:
            if ticket in entry.tickets:
                entry.tickets.remove(ticket)
            if not entry.tickets:
                self._queue.drop(entry)
        metrics.QUEUE_DEPTH.set(len(self._queue))

    async def _run(self) -> None:
        while not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._gather()
                await self._run_batch(self._queue.take(self.limits.max_batch))

    def _work_now(self, queries: Sequence[Ask], top_k: int) -> BatchResult:
        """On the owner's thread: `work` may have been replaced while this batch waited for it."""
        return self.work(queries, top_k)

    async def _gather(self) -> None:
        """Holds the start back while those answered just now are likely to ask again; never longer than the window."""
        until, enough = self._pace.hold(self.limits.window_s)
        while len(self._queue) < min(enough, self.limits.max_batch) and (left := until - time.perf_counter()) > 0:
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left)

    async def _run_batch(self, batch: list[Entry]) -> None:
        if not batch:
            return
        started = time.perf_counter()
        top_k = max(entry.top_k for entry in batch)
        for entry in batch:
            entry.started, entry.top_k = started, top_k
            metrics.QUEUE_SECONDS.observe(started - entry.since)
        self._running = {entry.query: entry for entry in batch}
        metrics.QUEUE_DEPTH.set(len(self._queue))
        metrics.BATCH_SIZE.observe(len(batch))
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(self._owner, self._work_now, list(self._running), top_k)
        except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to those who asked
            for entry in batch:
                entry.settle(error)
        else:
            for entry, passages, fingerprint in zip(batch, result.rows, result.fingerprints, strict=True):
                entry.passages, entry.timings, entry.fingerprint = passages, result.timings, fingerprint
                entry.settle(result.failed.get(entry.query))
        finally:
            self._running = {}
            self._pace.ran(len(batch), time.perf_counter() - started)


class Pace:
    """How fast batches run, and how long it is worth waiting for company."""

    def __init__(self) -> None:
        self._seconds_per_query = 0.0
        self._last_size, self._last_took, self._last_end = 0, 0.0, 0.0

    def ran(self, size: int, took_s: float) -> None:
        self._last_size, self._last_took, self._last_end = size, took_s, time.perf_counter()
        each = took_s / size
        self._seconds_per_query = each if not self._seconds_per_query else 0.8 * self._seconds_per_query + 0.2 * each

    def seconds_for(self, queries: int) -> float:
        return queries * self._seconds_per_query

    def hold(self, window_s: float) -> tuple[float, int]:
        """Until when to wait, and for how many queries: no time at all behind a batch of one, or after a pause."""
        if self._last_size <= 1:
            return 0.0, 0
        return self._last_end + min(window_s, self._last_took / 4), self._last_size


async def _settled(ticket: Ticket, deadline_s: float, gone: Gone | None) -> None:
    until = time.perf_counter() + deadline_s
    while True:
        left = until - time.perf_counter()
        await asyncio.wait([ticket.done], timeout=max(0.0, min(left, _HANG_UP_CHECK_S)))
        if ticket.done.done():
            return ticket.done.result()
        if left <= _HANG_UP_CHECK_S:
            raise DeadlineExceeded(f"Not answered within {deadline_s:g} s. Send fewer queries at once, or try later.")
        if gone is not None and await gone():
            raise CallerGone("The caller hung up.")


def _slowest(entries: Collection[Entry], asked: float) -> Timings:
    """A query that waited or ran already when it was `asked` for is waited for from then on."""
    last = max(entries, key=lambda entry: entry.started - max(entry.since, asked))
    took = last.timings
    return Timings(max(0.0, last.started - max(last.since, asked)), took.encode_s, took.search_s, took.load_s)
