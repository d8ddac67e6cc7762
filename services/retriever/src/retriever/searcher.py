"""What one batch costs and brings: encode the queries, search the index, read the passages. Runs on the owner's thread only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from parallelsearch.rollout.types import Passage
from retriever import metrics
from retriever.encoders.cached import QueryVectors
from retriever.index.opened import OpenIndex


@dataclass(frozen=True, slots=True)
class BatchTimings:
    encode_s: float = 0.0
    search_s: float = 0.0
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One tuple of passages per query, best first; fewer than top_k where the index has no more."""

    rows: list[tuple[Passage, ...]]
    timings: BatchTimings
    fingerprint: str = ""


class Searcher:
    """Answers batches from one open index. `vectors` may be shared by searchers of the same encoder."""

    def __init__(self, index: OpenIndex, vectors: QueryVectors) -> None:
        self._index, self._vectors = index, vectors

    def run(self, queries: Sequence[str], top_k: int) -> BatchResult:
        started = time.perf_counter()
        vectors = self._vectors.of(queries)
        encoded = time.perf_counter()
        scores, rows = self._index.search.search(vectors, min(top_k, self._index.search.rows))
        searched = time.perf_counter()
        found = [self._passages(*pair) for pair in zip(scores.tolist(), rows.tolist(), strict=True)]
        loaded = time.perf_counter()
        timings = BatchTimings(encoded - started, searched - encoded, loaded - searched)
        metrics.ENCODE_SECONDS.observe(timings.encode_s)
        metrics.SEARCH_SECONDS.observe(timings.search_s)
        metrics.LOAD_SECONDS.observe(timings.load_s)
        return BatchResult(found, timings, self._index.manifest.fingerprint)

    def _passages(self, scores: list[float], rows: list[int]) -> tuple[Passage, ...]:
        found = []
        for score, row in zip(scores, rows, strict=True):
            if row < 0:  # FAISS pads with −1 where it has no further neighbour
                break
            passage = self._index.corpus[row]
            found.append(Passage(passage.id, passage.title, passage.text, score, passage.url))
        return tuple(found)
