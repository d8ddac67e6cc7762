"""The retriever as an object: takes queries, gives passages, says which index it serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parallelsearch.rollout.types import Passage
from parallelsearch.schemas.retrieval import IndexModel
from retriever import metrics
from retriever.batcher import Batcher, BatchLimits, Gone, Timings
from retriever.index.manifest import Manifest
from retriever.index.opened import OpenIndex
from retriever.searcher import Searcher
from servicekit.health import Readiness


@dataclass(frozen=True, slots=True)
class Retrieved:
    rows: list[tuple[Passage, ...]]
    timings: Timings
    index: IndexModel


class Retriever:
    """One open index behind one batcher. `start` and `stop` belong to the event loop that serves."""

    def __init__(self, index: OpenIndex, limits: BatchLimits, cached_queries: int = 0) -> None:
        self._index = index
        self._batcher = Batcher(Searcher(index, cached_queries).run, limits)
        self.described = describe(index.manifest)

    async def start(self) -> None:
        metrics.INDEX_PASSAGES.set(self.described.passages)
        self._batcher.start()

    async def stop(self) -> None:
        await self._batcher.stop()
        self._index.close()

    async def retrieve(
        self, queries: Sequence[str], top_k: int, *, deadline_s: float | None = None, gone: Gone | None = None
    ) -> Retrieved:
        """At most `top_k` passages per query, in the order of the queries; none of them for no queries.

        Raises:
            Overloaded, DeadlineExceeded, CallerGone: see `Batcher.submit`.
        """
        if not queries:
            return Retrieved([], Timings(), self.described)
        answered = await self._batcher.submit(queries, top_k, deadline_s=deadline_s, gone=gone)
        return Retrieved(answered.rows, answered.timings, self.described)

    async def readiness(self) -> Readiness:
        ready = self._batcher.running
        return Readiness("ready" if ready else "starting", {"index": f"{self.described.passages} passages"})


def describe(manifest: Manifest) -> IndexModel:
    return IndexModel(
        fingerprint=manifest.fingerprint,
        encoder=manifest.encoder.name,
        dimension=manifest.dimension,
        metric=manifest.metric,
        kind=manifest.kind,
        passages=manifest.passages,
        built_at=manifest.built_at,
    )
