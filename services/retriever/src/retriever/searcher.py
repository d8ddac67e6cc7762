"""What one batch costs and brings: encode the queries, search the index, read the passages. Runs on the owner's thread only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parallelsearch.errors import InvalidInput
from parallelsearch.rollout.types import Passage
from parallelsearch.schemas.retrieval import METHODS, Method
from retriever import metrics
from retriever.encoders.cached import QueryVectors
from retriever.encoders.identity import Vectors
from retriever.index.lexical import FUSED_DEPTH, fuse
from retriever.index.opened import OpenIndex
from retriever.index.search import Found


class Ask(NamedTuple):
    """One query and how it is searched; equal ones are one."""

    text: str
    method: Method = "dense"


@dataclass(frozen=True, slots=True)
class BatchTimings:
    encode_s: float = 0.0
    search_s: float = 0.0
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One tuple of passages per ask, best first; fewer than top_k where the index has no more."""

    rows: list[tuple[Passage, ...]]
    timings: BatchTimings
    fingerprint: str = ""


@dataclass(slots=True)
class _Watch:
    """Seconds spent, by stage."""

    last: float = field(default_factory=time.perf_counter)

    def lap(self) -> float:
        now = time.perf_counter()
        spent, self.last = now - self.last, now
        return spent


class Searcher:
    """Answers batches from one open index. `vectors` may be shared by searchers of the same encoder."""

    def __init__(self, index: OpenIndex, vectors: QueryVectors) -> None:
        self._index, self._vectors = index, vectors

    def run(self, asks: Sequence[Ask], top_k: int) -> BatchResult:
        found: dict[Ask, tuple[Passage, ...]] = {}
        encode_s = search_s = load_s = 0.0
        for method in METHODS:
            texts = [ask.text for ask in asks if ask.method == method]
            if not texts:
                continue
            watch = _Watch()
            vectors = self._vectors.of(texts) if method != "bm25" else None
            encode_s += watch.lap()
            scores, rows = self._search(method, texts, vectors, top_k)
            search_s += watch.lap()
            for text, *pair in zip(texts, scores.tolist(), rows.tolist(), strict=True):
                found[Ask(text, method)] = self._passages(*pair)
            load_s += watch.lap()
        metrics.ENCODE_SECONDS.observe(encode_s)
        metrics.SEARCH_SECONDS.observe(search_s)
        metrics.LOAD_SECONDS.observe(load_s)
        timings = BatchTimings(encode_s, search_s, load_s)
        return BatchResult([found[ask] for ask in asks], timings, self._index.manifest.fingerprint)

    def _search(self, method: Method, texts: Sequence[str], vectors: Vectors | None, top_k: int) -> Found:
        if method == "dense" and vectors is not None:
            return self._index.search.search(vectors, min(top_k, self._index.search.rows))
        lexical = self._index.lexical
        if lexical is None:
            raise InvalidInput(f"The index that is served now has no part for `{method}`.")
        if vectors is None:
            return lexical.search(texts, top_k)
        depth = min(max(top_k, FUSED_DEPTH), self._index.search.rows)
        _, dense = self._index.search.search(vectors, depth)
        _, by_words = lexical.search(texts, depth)
        return fuse([dense, by_words], top_k)

    def _passages(self, scores: list[float], rows: list[int]) -> tuple[Passage, ...]:
        found = []
        for score, row in zip(scores, rows, strict=True):
            if row < 0:  # FAISS pads with −1 where it has no further neighbour
                break
            passage = self._index.corpus[row]
            found.append(Passage(passage.id, passage.title, passage.text, score, passage.url))
        return tuple(found)
