"""Concurrent batch search for one request: rows by way of cache and single flight, told to the request's observer as they land."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway import metrics
from gateway.cache import normalise
from gateway.flights import Flights, IndexVersions, Landed, ScopedSearch
from parallelsearch.errors import RetrievalFailed
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.observer import RolloutObserver
from parallelsearch.rollout.types import EVERYWHERE, Scope, SubQueryResult
from parallelsearch.schemas.answers import CacheUse


class CachedSearch:
    """Implements `SearchBackend`. A cached row holds what the retriever answered, since what is searched is what is keyed."""

    def __init__(
        self,
        flights: Flights,
        retriever: ScopedSearch,
        versions: IndexVersions,
        use: CacheUse = "use",
        observer: RolloutObserver | None = None,
        scope: Scope = EVERYWHERE,
    ) -> None:
        self._flights = flights
        self._retriever = retriever
        self._versions = versions
        self._scope = scope
        self._use = use
        self._observer = observer or RolloutObserver()

    def for_request(self, use: CacheUse, observer: RolloutObserver | None = None, scope: Scope = EVERYWHERE) -> CachedSearch:
        return CachedSearch(self._flights, self._retriever, self._versions, use, observer, scope)

    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        """Rows that are found stand even if the retriever fails for the rest, whose rows are then marked as failed.

        Raises:
            RetrievalFailed: there is no row at all.
        """
        if self._use == "bypass":
            return await self._bypass(queries, top_k)
        places: dict[str, list[int]] = {}
        for position, query in enumerate(queries):
            places.setdefault(normalise(query), []).append(position)
        results: dict[int, SubQueryResult] = {}
        rows = await self._rows(places, top_k, queries, results)
        version = self._versions.searched(self._scope)
        if outdated := {query: places[query] for query, landed in rows.items() if landed.version and landed.version != version}:
            # The index was replaced between cache and retriever: once more, so that no turn mixes passages of two.
            rows |= await self._rows(outdated, top_k, queries, results)
            version = self._versions.searched(self._scope)
        error = next((landed.error for landed in rows.values() if landed.error), None)
        if error is not None and all(result.failed for result in results.values()):
            raise RetrievalFailed(error.detail, retry_after_s=error.retry_after_s or 2) from error
        return SearchBatch(tuple(results[position] for position in range(len(queries))), version.fingerprint, version.ranking)

    async def _rows(
        self, places: Mapping[str, list[int]], top_k: int, queries: Sequence[str], results: dict[int, SubQueryResult]
    ) -> dict[str, Landed]:
        """Each row as it landed, after it was put in its places in `results`."""
        flying = self._flights.join(places, top_k, self._scope)
        coming = {future: query for query, future in flying.items()}
        known = {future for future in coming if future.done()}
        rows: dict[str, Landed] = {}
        pending = set(coming)
        while pending:
            # Bounded by the retriever client's time-outs, which end every flight.
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: places[coming[future]]):
                landed = rows[coming[future]] = future.result()
                result = (
                    replace(landed.result, cached=True, latency_ms=0.0)
                    if future in known and not landed.result.failed
                    else landed.result
                )
                self._put(result, places[coming[future]], queries, results)
        return rows

    def _put(
        self, found: SubQueryResult, positions: Sequence[int], queries: Sequence[str], results: dict[int, SubQueryResult]
    ) -> None:
        """Puts a row in its places, under the words that were asked for."""
        for position in positions:
            results[position] = found if found.query == queries[position] else replace(found, query=queries[position])
            self._observer.sub_query_landed(position, results[position])

    async def _bypass(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        metrics.CACHE.labels("bypass").inc(len(queries))
        batch = await self._retriever.search([normalise(query) for query in queries], top_k, self._scope)
        results = tuple(replace(result, query=query) for query, result in zip(queries, batch.results, strict=True))
        for position, result in enumerate(results):
            self._observer.sub_query_landed(position, result)
        return SearchBatch(results, batch.fingerprint, batch.ranking)
