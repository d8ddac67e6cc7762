"""Finds ids that occur twice, in bounded memory: 8 bytes a passage on disk, compared one slice of the hash space at a time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parallelsearch.errors import CorpusError
from retriever.corpus.reading import Place, read_corpus

_HASH = np.dtype("<u8")
_ROWS_AT_ONCE = 1_000_000


def hash_of(identifier: str) -> bytes:
    return blake2b(identifier.encode(), digest_size=_HASH.itemsize).digest()


def refuse_repeated_ids(hashes_file: Path, sources: Sequence[Path]) -> None:
    """Checks the hashes of all ids; only if two are the same are the sources read again to name both places.

    Raises:
        CorpusError: an id occurs twice.
    """
    suspects = _repeated(np.memmap(hashes_file, dtype=_HASH, mode="r"))
    if not suspects:
        return
    first: dict[str, Place] = {}
    for place, passage in read_corpus(sources):
        if int.from_bytes(hash_of(passage.id), "little") not in suspects:
            continue
        if passage.id in first:
            raise CorpusError(
                f"{place}: the id {passage.id!r} stands in {first[passage.id]} already. Make ids unique, then build again."
            )
        first[passage.id] = place


def _repeated(hashes: NDArray[np.uint64]) -> set[int]:
    slices = 1 + len(hashes) // _ROWS_AT_ONCE
    found: set[int] = set()
    for part in range(slices):
        chunks = (hashes[start : start + _ROWS_AT_ONCE] for start in range(0, len(hashes), _ROWS_AT_ONCE))
        ordered = np.sort(np.concatenate([chunk[chunk % slices == part] for chunk in chunks]))
        found.update(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    return found
