"""Single flight: however many requests want a row at once, it is read or searched for once, in this process and among replicas.

A row is claimed in Redis while it is searched for; other replicas wait for it to appear in the cache, and search themselves if it
does not appear in time, or if there is no Redis. A flight goes on when the request that began it is gone: others may wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway import metrics
from gateway.cache import Claim, IndexVersion, Passages, SearchCache, cache_key
from parallelsearch.errors import RetrievalFailed
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import EVERYWHERE, Scope, SubQueryResult

POLL_S = 0.01
WAIT_FOR_OTHERS_S = 1.0
WRITE_AFTER_S = 0.001
UNKNOWN = IndexVersion()


class IndexVersions:
    """The versions that cache keys carry, by the name of the index (empty: the default one), as the retriever told them."""

    def __init__(self) -> None:
        self._known: dict[str, IndexVersion] = {}
        self._web = UNKNOWN

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def of(self, name: str) -> IndexVersion:
        """False where it is not known yet."""
        return self._known.get(name, UNKNOWN)

    def searched(self, scope: Scope) -> IndexVersion:
        """What a search there is answered from, which is the web and no index where that is asked for."""
        return self._web if scope.method == "web" else self.of(scope.index)

    def learn(self, scope: Scope, version: IndexVersion) -> None:
        if scope.method == "web":
            self._web = version
        else:
            self._known[scope.index] = version

    def replace(self, known: Mapping[str, IndexVersion]) -> None:
        self._known = dict(known)


class ScopedSearch(Protocol):
    """A `SearchBackend` that may be told where to search."""

    async def search(self, queries: Sequence[str], top_k: int, scope: Scope = EVERYWHERE) -> SearchBatch: ...


@dataclass(frozen=True, slots=True)
class Landed:
    """A row and the index that it is of (false where that is not known), or why there is none."""

    result: SubQueryResult
    version: IndexVersion = UNKNOWN
    error: RetrievalFailed | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What makes two rows the same: the normalised query, top_k, the index, and the filter and the method that are asked for."""

    query: str
    top_k: int
    version: IndexVersion
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row that is under way, and where those who wait for it wait."""

    wanted: Wanted
    future: asyncio.Future[Landed]

    @property
    def query(self) -> str:
        return self.wanted.query

    @property
    def key(self) -> str:
        return cache_key(self.wanted.query, self.wanted.top_k, self.wanted.version, self.wanted.scope)


class Flights:
    """The searches under way in this process. Bounded by the requests that are let in.

    A row lands before it is written to the cache, and is under way until it stands there, so that in between nobody searches again.
    """

    def __init__(self, cache: SearchCache, retriever: ScopedSearch, versions: IndexVersions) -> None:
        self._cache = cache
        self._retriever = retriever
        self._versions = versions
        self._under_way: dict[Wanted, Row] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, queries: Iterable[str], top_k: int, scope: Scope = EVERYWHERE) -> dict[str, asyncio.Future[Landed]]:
        """For each normalised query the row to come. The futures are shared: wait for them, do not cancel them."""
        rows: dict[str, asyncio.Future[Landed]] = {}
        new: list[Row] = []
        version = self._versions.searched(scope)
        for query in queries:
            wanted = Wanted(query, top_k, version, scope)
            if wanted in self._under_way:
                metrics.CACHE.labels("shared").inc()
            else:
                row = Row(wanted, asyncio.get_running_loop().create_future())
                self._under_way[wanted] = row
                new.append(row)
            rows[query] = self._under_way[wanted].future
        if new:
            task = asyncio.create_task(self._fly(new))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return rows

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fly(self, rows: Sequence[Row]) -> None:
        try:
            await self._fetch(rows)
        finally:
            # Nobody waits for ever, whatever happened to the flight.
            self._land_failed(rows, RetrievalFailed("The search was broken off.", retry_after_s=1))
            for row in rows:
                self._forget(row)

    def _land(self, row: Row, landed: Landed) -> None:
        if not row.future.done():
            row.future.set_result(landed)

    def _land_failed(self, rows: Sequence[Row], error: RetrievalFailed) -> None:
        """Whoever asks from now on starts a new flight."""
        for row in rows:
            if not row.future.done():
                self._land(row, Landed(SubQueryResult(row.query, failed=True), error=error))
                self._forget(row)

    def _forget(self, row: Row) -> None:
        if self._under_way.get(row.wanted) is row:
            del self._under_way[row.wanted]

    async def _fetch(self, rows: Sequence[Row]) -> None:
        if not rows[0].wanted.version:
            await self._search(rows)
            return
        started = time.perf_counter()
        found = dict(zip(rows, await self._cache.claim([row.key for row in rows]), strict=True))
        self._land_cached({row: value for row, value in found.items() if isinstance(value, tuple)}, started)
        ours = [row for row in rows if found[row] is Claim.OURS]
        theirs = [row for row in rows if found[row] is Claim.THEIRS]
        metrics.CACHE.labels("miss").inc(len(ours))
        if not theirs:
            if ours:
                await self._search(ours)
            return
        async with asyncio.TaskGroup() as both:
            if ours:
                both.create_task(self._search(ours))
            both.create_task(self._wait_for_others(theirs, started))

    async def _wait_for_others(self, rows: Sequence[Row], started: float) -> None:
        while rows and time.perf_counter() - started < WAIT_FOR_OTHERS_S:
            await asyncio.sleep(POLL_S)
            values = await self._cache.get([row.key for row in rows])
            found = {row: value for row, value in zip(rows, values, strict=True) if value is not None}
            self._land_cached(found, started)
            rows = [row for row in rows if row not in found]
        if rows:
            metrics.CACHE.labels("miss").inc(len(rows))
            await self._search(rows)

    def _land_cached(self, found: Mapping[Row, Passages], started: float) -> None:
        latency_ms = (time.perf_counter() - started) * 1000
        metrics.CACHE.labels("hit").inc(len(found))
        for row, passages in found.items():
            result = SubQueryResult(row.query, passages, cached=True, latency_ms=latency_ms)
            self._land(row, Landed(result, row.wanted.version))

    async def _search(self, rows: Sequence[Row]) -> None:
        """One batch to the retriever for all; what it answers is cached under the index that answered."""
        fresh: list[SubQueryResult] = []
        scope, top_k, version = rows[0].wanted.scope, rows[0].wanted.top_k, UNKNOWN
        try:
            batch = await self._retriever.search([row.query for row in rows], top_k, scope)
            version = IndexVersion(batch.fingerprint, batch.ranking)
            if version:
                self._versions.learn(scope, version)
                fresh = [result for result in batch.results if not result.failed]
            for row, result in zip(rows, batch.results, strict=True):
                self._land(row, Landed(result, version))
        except RetrievalFailed as error:
            self._land_failed(rows, error)
        finally:
            # Whoever waits for these rows goes on first; they stay under way until they stand in the cache.
            await asyncio.sleep(WRITE_AFTER_S)
            found = {cache_key(result.query, top_k, version, scope): result.passages for result in fresh}
            await self._cache.put(found, claimed=[row.key for row in rows])
