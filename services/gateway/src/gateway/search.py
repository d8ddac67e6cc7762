"""Concurrent batch search through the cache: one multi-get, one batch to the retriever for the misses, one write back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from gateway import metrics
from gateway.cache import SearchCache, cache_key, normalise
from parallelsearch.rollout.interfaces import SearchBackend, SearchBatch
from parallelsearch.rollout.types import SubQueryResult
from parallelsearch.schemas.answers import CacheUse


class IndexVersion:
    """The fingerprint that cache keys carry; the gateway keeps it as the retriever last told it."""

    def __init__(self) -> None:
        self.fingerprint = ""


class CachedSearch:
    """Implements `SearchBackend`. A cached row holds what the retriever answered, since what is searched is what is keyed."""

    def __init__(self, cache: SearchCache, retriever: SearchBackend, version: IndexVersion, use: CacheUse = "use") -> None:
        self._cache = cache
        self._retriever = retriever
        self._version = version
        self._use = use

    def with_use(self, use: CacheUse) -> CachedSearch:
        return CachedSearch(self._cache, self._retriever, self._version, use)

    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        normalised = [normalise(query) for query in queries]
        found = await self._from_cache(normalised, top_k)
        misses = list(dict.fromkeys(query for query in normalised if query not in found))
        fingerprint = self._version.fingerprint
        if misses:
            batch = await self._retriever.search(misses, top_k)
            fingerprint = batch.fingerprint or fingerprint
            self._version.fingerprint = fingerprint
            fresh = dict(zip(misses, batch.results, strict=True))
            await self._to_cache(fresh, top_k, fingerprint)
            found |= fresh
        results = (replace(found[key], query=query) for query, key in zip(queries, normalised, strict=True))
        return SearchBatch(tuple(results), fingerprint)

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
