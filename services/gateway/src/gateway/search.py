"""Concurrent batch search through the cache: one multi-get, one batch to the retriever for the misses, one write back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway import metrics
from gateway.cache import SearchCache, cache_key, normalise
from parallelsearch.errors import RetrievalFailed
from parallelsearch.rollout.interfaces import SearchBackend, SearchBatch
from parallelsearch.rollout.observer import RolloutObserver
from parallelsearch.rollout.types import SubQueryResult
from parallelsearch.schemas.answers import CacheUse


class IndexVersion:
    """The fingerprint that cache keys carry; the gateway keeps it as the retriever last told it."""

    def __init__(self) -> None:
        self.fingerprint = ""


class CachedSearch:
    """Implements `SearchBackend`. A cached row holds what the retriever answered, since what is searched is what is keyed.

    `observer` is told of each sub-query as it lands: cached ones first.
    """

    def __init__(
        self,
        cache: SearchCache,
        retriever: SearchBackend,
        version: IndexVersion,
        use: CacheUse = "use",
        observer: RolloutObserver | None = None,
    ) -> None:
        self._cache = cache
        self._retriever = retriever
        self._version = version
        self._use = use
        self._observer = observer or RolloutObserver()

    def for_request(self, use: CacheUse, observer: RolloutObserver | None = None) -> CachedSearch:
        return CachedSearch(self._cache, self._retriever, self._version, use, observer)

    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        """Cached rows stand even if the retriever fails for the rest, whose rows are then marked as failed.

        Raises:
            RetrievalFailed: nothing was cached and nothing could be searched.
        """
        normalised = [normalise(query) for query in queries]
        found = await self._from_cache(normalised, top_k)
        landed = self._land(queries, normalised, found)
        misses = list(dict.fromkeys(query for query in normalised if query not in found))
        if misses:
            fresh = await self._from_retriever(misses, top_k, alone=not found)
            landed |= self._land(queries, normalised, fresh)
        return SearchBatch(tuple(landed[position] for position in range(len(queries))), self._version.fingerprint)

    def _land(self, queries: Sequence[str], keys: Sequence[str], found: Mapping[str, SubQueryResult]) -> dict[int, SubQueryResult]:
        """The results found, by their place among the queries and under the words that were asked for."""
        landed = {
            position: replace(found[key], query=query)
            for position, (query, key) in enumerate(zip(queries, keys, strict=True))
            if key in found
        }
        for position, result in landed.items():
            self._observer.sub_query_landed(position, result)
        return landed

    async def _from_retriever(self, queries: Sequence[str], top_k: int, *, alone: bool) -> dict[str, SubQueryResult]:
        try:
            batch = await self._retriever.search(queries, top_k)
        except RetrievalFailed:
            if alone:
                raise
            return {query: SubQueryResult(query, failed=True) for query in queries}
        fingerprint = batch.fingerprint or self._version.fingerprint
        self._version.fingerprint = fingerprint
        fresh = dict(zip(queries, batch.results, strict=True))
        await self._to_cache(fresh, top_k, fingerprint)
        return fresh

    async def _from_cache(self, queries: Sequence[str], top_k: int) -> dict[str, SubQueryResult]:
        if self._use == "bypass" or not self._version.fingerprint:
            metrics.CACHE.labels("bypass").inc(len(queries))
            return {}
        started = time.perf_counter()
        rows = await self._cache.get([cache_key(query, top_k, self._version.fingerprint) for query in queries])
        latency_ms = (time.perf_counter() - started) * 1000
        hits = {
            query: SubQueryResult(query, passages, cached=True, latency_ms=latency_ms)
            for query, passages in zip(queries, rows, strict=True)
            if passages is not None
        }
        metrics.CACHE.labels("hit").inc(len(hits))
        metrics.CACHE.labels("miss").inc(len(queries) - len(hits))
        return hits

    async def _to_cache(self, fresh: dict[str, SubQueryResult], top_k: int, fingerprint: str) -> None:
        if self._use == "bypass" or not fingerprint:
            return
        rows = {cache_key(query, top_k, fingerprint): row.passages for query, row in fresh.items() if not row.failed}
        await self._cache.put(rows)
