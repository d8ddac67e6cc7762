"""Vectors of the version before, found by the text that they are of, so that what did not change is not encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from retriever.corpus.repeats import hash_of
from retriever.corpus.store import CorpusStore
from retriever.encoders.identity import Vectors
from retriever.index.manifest import VECTORS_FILE


class KnownVectors:
    """8 bytes a passage in memory twice over; hashes only find a passage, and its text decides."""

    def __init__(self, data: Path) -> None:
        self._corpus = CorpusStore(data)
        self._vectors: Vectors = np.load(data / VECTORS_FILE, mmap_mode="r", allow_pickle=False)
        hashes = np.fromiter((_hash(passage.contents) for passage in self._corpus), np.uint64, len(self._corpus))
        self._rows = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._rows]
        self.used = 0

    def of(self, texts: Sequence[str]) -> dict[int, Vectors]:
        """By position in `texts`, the vectors that are known."""
        places = np.searchsorted(self._hashes, np.array([_hash(text) for text in texts], np.uint64))
        found = {}
        for position, (text, place) in enumerate(zip(texts, places.tolist(), strict=True)):
            if place < len(self._rows) and self._corpus[row := int(self._rows[place])].contents == text:
                found[position] = np.array(self._vectors[row])
        self.used += len(found)
        return found

    def close(self) -> None:
        self._corpus.close()


def _hash(text: str) -> int:
    return int.from_bytes(hash_of(text), "little")
