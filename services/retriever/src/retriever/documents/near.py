"""Finds documents that say nearly the same, by MinHash over runs of three words (datasketch)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import islice

import numpy as np
from datasketch import MinHash, MinHashLSH

from retriever.documents.document import Document

PERMUTATIONS = 128
SIMILAR = 0.9
"""The estimated share of common runs from which on two documents are one."""
_RUN = 3
_SCHEME = "affine32"
_AT_ONCE = 10_000


def signature_of(document: Document) -> str:
    """128 numbers of 32 bits, in base64: what two documents are compared by."""
    sketch = MinHash(PERMUTATIONS, scheme=_SCHEME)
    runs = _runs(document)
    while some := list(islice(runs, _AT_ONCE)):
        sketch.update_batch(some)
    return b64encode(sketch.hashvalues.astype("<u4").tobytes()).decode()


def _runs(document: Document) -> Iterator[bytes]:
    words = [word for part in document.parts for word in part.text.casefold().split()]
    for start in range(max(1, len(words) - _RUN + 1)):
        yield " ".join(words[start : start + _RUN]).encode()


class Repeats:
    """The documents kept so far, by signature."""

    def __init__(self) -> None:
        self._kept = MinHashLSH(threshold=SIMILAR, num_perm=PERMUTATIONS)
        self._sketches: dict[str, MinHash] = {}

    def of(self, signature: str) -> str | None:
        """The document kept before that this one nearly repeats."""
        sketch = _sketch(signature)
        near = [(self._sketches[name].jaccard(sketch), name) for name in self._kept.query(sketch)]
        close = [(-share, name) for share, name in near if share >= SIMILAR]
        return min(close)[1] if close else None

    def keep(self, source: str, signature: str) -> None:
        sketch = _sketch(signature)
        self._sketches[source] = sketch
        self._kept.insert(source, sketch, check_duplication=False)


def _sketch(signature: str) -> MinHash:
    values = np.frombuffer(b64decode(signature), dtype="<u4").astype(np.uint32)
    return MinHash(PERMUTATIONS, hashvalues=values, scheme=_SCHEME)
