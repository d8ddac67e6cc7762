"""The retriever as an object: takes queries, gives passages, says which index it serves, and takes a new one while serving."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from parallelsearch.errors import ConfigurationError, InvalidInput, Overloaded
from parallelsearch.rollout.types import Passage
from parallelsearch.schemas.retrieval import METHODS, IndexModel, Method
from retriever import metrics
from retriever.batcher import Answered, Batcher, BatchLimits, Gone, Timings
from retriever.encoders.cached import QueryVectors
from retriever.encoders.identity import Encoder
from retriever.index.manifest import Manifest
from retriever.index.opened import OpenIndex
from retriever.searcher import Ask, Searcher
from servicekit.health import Readiness

log = structlog.get_logger(__name__)


class Opener(Protocol):
    """Opens what is published; takes the encoder that is loaded already."""

    def __call__(self, *, loaded: Encoder | None) -> OpenIndex: ...


@dataclass(frozen=True, slots=True)
class Retrieved:
    rows: list[tuple[Passage, ...]]
    timings: Timings
    index: IndexModel


class Retriever:
    """One open index behind one batcher. All methods belong to the event loop that serves."""

    def __init__(self, opener: Opener, limits: BatchLimits, cached_queries: int = 0, default_method: Method = "dense") -> None:
        """Opens the index; raises what `open_index` raises, and ConfigurationError if it does not serve the default method."""
        self._opener, self._cached_queries, self._default_method = opener, cached_queries, default_method
        self._index = opener(loaded=None)
        if default_method != "dense" and self._index.lexical is None:
            raise ConfigurationError(
                f"RETRIEVER_METHOD is {default_method}, but the index serves dense only. Build it with --bm25."
            )
        self._index.warm()
        self._vectors = QueryVectors(self._index.encoder, cached_queries)
        self._batcher = Batcher(Searcher(self._index, self._vectors).run, limits)
        self._reloading = asyncio.Lock()

    @property
    def described(self) -> IndexModel:
        return describe(self._index.manifest)

    async def start(self) -> None:
        metrics.INDEX_PASSAGES.set(self._index.manifest.passages)
        self._batcher.start()

    async def stop(self) -> None:
        await self._batcher.stop()
        self._index.close()

    async def retrieve(
        self,
        queries: Sequence[str],
        top_k: int,
        method: Method | None = None,
        *,
        deadline_s: float | None = None,
        gone: Gone | None = None,
    ) -> Retrieved:
        """At most `top_k` passages per query, in the order of the queries, all from one index; none for no queries.

        Raises:
            InvalidInput: the index has no part for this method.
            Overloaded, DeadlineExceeded, CallerGone: see `Batcher.submit`.
        """
        if not queries:
            return Retrieved([], Timings(), self.described)
        asks = [Ask(query, method or self._default_method) for query in queries]
        self._refuse_unserved(asks[0].method)
        while True:
            answered = await self._batcher.submit(asks, top_k, deadline_s=deadline_s, gone=gone)
            described = self._answered_by(answered)
            if described is not None:
                return Retrieved(answered.rows, answered.timings, described)

    def _refuse_unserved(self, method: Method) -> None:
        if method != "dense" and self._index.lexical is None:
            raise InvalidInput(f"method: this index serves `dense` only. Build it with --bm25 to search it by `{method}`.")

    def _answered_by(self, answered: Answered) -> IndexModel | None:
        """The index that gave all rows, unless a swap fell in between: then the rows are asked for again."""
        described = self.described
        return described if answered.fingerprints == {described.fingerprint} else None

    async def reload(self) -> bool:
        """Opens what is published now beside what is served, warms it and swaps; false if it is served already.

        Queries that run or wait go on: each batch is answered by one index, and the old one is closed behind its last batch.

        Raises:
            Overloaded: a reload runs already.
            ConfigurationError, IndexMismatch: the published index cannot be served; the old one still is.
        """
        if self._reloading.locked():
            raise Overloaded("An index is being loaded already. Ask again when it is done.", retry_after_s=5)
        async with self._reloading:
            new = await asyncio.to_thread(self._opener, loaded=self._index.encoder)
            if new.manifest.fingerprint == self._index.manifest.fingerprint:
                new.close()
                return False
            await self._batcher.on_owner(new.warm)
            if new.encoder is not self._index.encoder:
                self._vectors = QueryVectors(new.encoder, self._cached_queries)
            await self._batcher.on_owner(partial(self._swap, new))
            metrics.INDEX_PASSAGES.set(new.manifest.passages)
            log.info("index_reloaded", fingerprint=new.manifest.fingerprint, passages=new.manifest.passages)
            return True

    def _swap(self, new: OpenIndex) -> None:
        """On the owner's thread: no batch runs, so nobody reads the old index any more."""
        old, self._index = self._index, new
        self._batcher.work = Searcher(new, self._vectors).run
        old.close()

    async def readiness(self) -> Readiness:
        ready = self._batcher.running
        return Readiness("ready" if ready else "starting", {"index": f"{self._index.manifest.passages} passages"})


def describe(manifest: Manifest) -> IndexModel:
    return IndexModel(
        fingerprint=manifest.fingerprint,
        encoder=manifest.encoder.name,
        dimension=manifest.dimension,
        metric=manifest.metric,
        kind=manifest.kind,
        passages=manifest.passages,
        built_at=manifest.built_at,
        methods=METHODS if manifest.lexical else ("dense",),
    )
