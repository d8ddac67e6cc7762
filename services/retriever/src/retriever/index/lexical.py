"""The lexical part of an index: BM25 over titles and texts. Half a second to import, which an index without it is spared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# Where JAX is installed, bm25s calls it when it is imported, and JAX takes three quarters of a GPU's memory for good.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import bm25s
import numpy as np
from bm25s.tokenization import Tokenized
from numpy.typing import NDArray

from retriever.corpus.store import CorpusStore
from retriever.index.found import Found, nothing_found
from retriever.index.manifest import LEXICAL_FILES
from retriever.index.progress import Progress

_NAMES = dict(zip(("data_name", "indices_name", "indptr_name", "vocab_name", "params_name"), LEXICAL_FILES, strict=True))


def build_lexical(corpus: CorpusStore, data: Path) -> None:
    """Writes `LEXICAL_FILES` into `data`. Holds the corpus's token ids in memory, about 4 bytes a word."""
    with Progress("indexing words (BM25)"):
        tokens = bm25s.tokenize([f"{passage.title} {passage.text}" for passage in corpus], stopwords="en", show_progress=False)
        if not tokens.vocab:  # emoji alone, say; bm25s needs a word, and no query has the empty one
            tokens = Tokenized([[0]] * len(corpus), {"": 0})
        index = bm25s.BM25()
        index.index(tokens, show_progress=False)
        index.save(data, show_progress=False, **_NAMES)


class LexicalSearch:
    """BM25 search, memory-mapped. A passage that shares no word with the query is not found."""

    def __init__(self, data: Path, rows: int) -> None:
        """Without rows there are no files to open."""
        self._index = bm25s.BM25.load(data, mmap=True, show_progress=False, **_NAMES) if rows else None
        self.rows = rows

    def search(self, queries: Sequence[str], top_k: int, among: NDArray[np.int64] | None = None) -> Found:
        """Scores and rows of shape (queries, top_k), best first; −1 where there is no further passage.

        `among` are the rows that count, if not all.
        """
        scores, rows = nothing_found(len(queries), top_k)
        if self._index is None:
            return scores, rows
        mask = None
        if among is not None:
            mask = np.zeros(self.rows, dtype=np.float32)
            mask[among] = 1
        for query, words in enumerate(bm25s.tokenize(list(queries), stopwords="en", return_ids=False, show_progress=False)):
            if words:
                every = self._index.get_scores(words, weight_mask=mask)
                best = _best(every, top_k)
                scores[query, : len(best)], rows[query, : len(best)] = every[best], best
        return scores, rows


def _best(scores: NDArray[np.float32], top_k: int) -> NDArray[np.intp]:
    """The rows of the best `top_k` scores above 0, best first; of ties the smaller rows, which bm25s itself does not see to."""
    there = np.flatnonzero(scores > 0)
    held = scores[there]
    if len(there) > top_k:
        least = np.partition(held, -top_k)[-top_k]
        better = np.flatnonzero(held > least)
        kept = np.concatenate([better, np.flatnonzero(held == least)[: top_k - len(better)]])
        there, held = there[kept], held[kept]
    best: NDArray[np.intp] = there[np.lexsort((there, -held))]
    return best
