"""What one batch costs and brings: encode the queries, search the index, read the passages. Runs on the owner's thread only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from parallelsearch.errors import InvalidInput
from parallelsearch.rollout.types import EVERYWHERE, Filter, Passage, Scope
from parallelsearch.schemas.retrieval import Method
from retriever import metrics
from retriever.corpus.reading import CorpusPassage
from retriever.encoders.cached import QueryVectors
from retriever.encoders.identity import Vectors
from retriever.index.found import Found
from retriever.index.fusion import FUSED_DEPTH, fuse
from retriever.index.opened import OpenIndex
from retriever.reranking import Reranker

NO_FILTER = Filter()


class Ask(NamedTuple):
    """One query, how it is searched and where; equal ones are one."""

    text: str
    method: Method = "dense"
    scope: Scope = EVERYWHERE
    scored: int = 0
    """For `rerank`: how many passages the cross-encoder scores. Its answer would else depend on what shares its batch."""

    @property
    def way(self) -> tuple[Method, Scope, int]:
        """All but the text."""
        return self.method, self.scope, self.scored


@dataclass(frozen=True, slots=True)
class BatchTimings:
    encode_s: float = 0.0
    search_s: float = 0.0
    load_s: float = 0.0

    def __add__(self, other: BatchTimings) -> BatchTimings:
        return BatchTimings(self.encode_s + other.encode_s, self.search_s + other.search_s, self.load_s + other.load_s)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One tuple of passages per ask, best first; fewer than top_k where the index has no more."""

    rows: list[tuple[Passage, ...]]
    timings: BatchTimings
    fingerprints: Sequence[str]
    """Of the index that answered, one per ask."""
    failed: Mapping[Ask, Exception] = field(default_factory=dict)
    """Why some have no answer; their row is empty."""


@dataclass(slots=True)
class _Watch:
    """Seconds spent, by stage."""

    last: float = field(default_factory=time.perf_counter)

    def lap(self) -> float:
        now = time.perf_counter()
        spent, self.last = now - self.last, now
        return spent


@dataclass(frozen=True, slots=True)
class Originals:
    """The documents whose files are given out, and the address of their index."""

    address: str = ""
    sources: frozenset[str] = frozenset()

    def url_of(self, passage: CorpusPassage) -> str:
        """The passage's own address, else where its file is, at its page; it begins with a slash, for whoever forwards."""
        source, page = passage.metadata.get("source"), passage.metadata.get("page")
        if passage.url or source not in self.sources:
            return passage.url
        return f"{self.address}/documents/{quote(str(source), safe='')}/content" + (f"#page={page}" if page else "")


@dataclass(frozen=True, slots=True)
class Served:
    """An open index and the vectors of the queries that its encoder was given, which indexes of one encoder share."""

    index: OpenIndex
    vectors: QueryVectors
    originals: Originals = Originals()


class Searcher:
    """Answers batches from the open indexes, by name. They are replaced on the thread that runs the batches."""

    def __init__(self, served: Mapping[str, Served], reranker: Reranker | None = None) -> None:
        self._served, self._reranker = served, reranker

    def run(self, asks: Sequence[Ask], top_k: int) -> BatchResult:
        """What fails for one way of asking fails for nobody who asked in another."""
        found: dict[Ask, tuple[Passage, ...]] = {}
        failed: dict[Ask, Exception] = {}
        spent = BatchTimings()
        for way in dict.fromkeys(ask.way for ask in asks):
            alike = [ask for ask in asks if ask.way == way]
            try:
                rows, timings = self._run_alike(alike, top_k)
            except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to those who asked
                failed |= dict.fromkeys(alike, error)
            else:
                found |= zip(alike, rows, strict=True)
                spent += timings
        metrics.ENCODE_SECONDS.observe(spent.encode_s)
        metrics.SEARCH_SECONDS.observe(spent.search_s)
        metrics.LOAD_SECONDS.observe(spent.load_s)
        fingerprints = [self._served[ask.scope.index].index.manifest.fingerprint for ask in asks]
        return BatchResult([found.get(ask, ()) for ask in asks], spent, fingerprints, failed)

    def _run_alike(self, asks: Sequence[Ask], top_k: int) -> tuple[list[tuple[Passage, ...]], BatchTimings]:
        """Those that differ in their texts alone."""
        (method, scope, scored), texts = asks[0].way, [ask.text for ask in asks]
        served = self._served[scope.index]
        watch = _Watch()
        vectors = served.vectors.of(texts) if method != "bm25" else None
        encode_s = watch.lap()
        if method == "rerank":
            scores, rows = self._rerank(served.index, texts, vectors, scored, scope.filter)
        else:
            scores, rows = _search(served.index, method, texts, vectors, top_k, scope.filter)
        search_s = watch.lap()
        passages = [_passages(served, *pair) for pair in zip(scores.tolist(), rows.tolist(), strict=True)]
        return passages, BatchTimings(encode_s, search_s, watch.lap())

    def _rerank(self, index: OpenIndex, texts: Sequence[str], vectors: Vectors | None, scored: int, given: Filter) -> Found:
        """What both rankings find, or the one there is, scored again."""
        if self._reranker is None:
            raise InvalidInput("method: no cross-encoder is configured here. Set RETRIEVER_RERANKER.")
        first: Method = "dense" if index.lexical is None else "hybrid"
        _, rows = _search(index, first, texts, vectors, scored, given)
        return self._reranker.rerank(texts, rows, index.corpus, scored)


def _search(index: OpenIndex, method: Method, texts: Sequence[str], vectors: Vectors | None, top_k: int, given: Filter) -> Found:
    among = _among(index, given)
    if method == "dense" and vectors is not None:
        return _nearest(index, vectors, top_k, among)
    lexical = index.lexical
    if lexical is None:
        raise InvalidInput(f"method: the index that is served now has no part for `{method}`.")
    if vectors is None:
        return lexical.search(texts, top_k, among)
    depth = min(max(top_k, FUSED_DEPTH), index.search.rows)
    _, dense = _nearest(index, vectors, depth, among)
    _, by_words = lexical.search(texts, depth, among)
    return fuse([dense, by_words], top_k)


def _among(index: OpenIndex, given: Filter) -> NDArray[np.int64] | None:
    """The rows that count; None for all."""
    if given == NO_FILTER:
        return None
    if index.documents is None:
        raise InvalidInput("filter: the index that is served now was built of passages, which have no documents to filter by.")
    return index.documents.rows(given)


def _nearest(index: OpenIndex, vectors: Vectors, top_k: int, among: NDArray[np.int64] | None) -> Found:
    if among is None or index.filtered is None:
        return index.search.search(vectors, min(top_k, index.search.rows))
    return index.filtered.search(vectors, top_k, among)


def _passages(served: Served, scores: list[float], rows: list[int]) -> tuple[Passage, ...]:
    found = []
    for score, row in zip(scores, rows, strict=True):
        if row < 0:  # FAISS pads with −1 where it has no further neighbour
            break
        passage = served.index.corpus[row]
        url = served.originals.url_of(passage)
        found.append(Passage(passage.id, passage.title, passage.text, score, url, passage.metadata))
    return tuple(found)
