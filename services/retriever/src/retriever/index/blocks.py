"""Encoded blocks on disk: the checkpoints of a build. A block is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parallelsearch.errors import ConfigurationError
from retriever.corpus.store import CorpusStore
from retriever.encoders.identity import Encoder, Vectors
from retriever.index.known import KnownVectors
from retriever.index.manifest import sync_folder
from retriever.index.progress import Progress, say

_STEP = 16
"""Texts encoded at once: so few that queries hardly wait where a running retriever encodes them between its batches."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The encoded vectors of `rows` passages in files of `size` rows each, in `folder`."""

    folder: Path
    rows: int
    size: int

    def paths(self) -> list[Path]:
        return [self.folder / f"block-{start // self.size:07}.npy" for start in range(0, self.rows, self.size)]

    def __iter__(self) -> Iterator[tuple[int, Vectors]]:
        """Each block with the number of its first row. All are read into one array: a block is good until the next is asked for."""
        room: Vectors | None = None
        for number, path in enumerate(self.paths()):
            with path.open("rb") as file:
                np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
                shape, _, kind = np.lib.format.read_array_header_1_0(file)  # type: ignore[no-untyped-call]
                room = np.empty(shape, kind) if room is None else room
                block = room[: shape[0]]
                file.readinto(block.data.cast("B"))
            yield number * self.size, block


def encode_blocks(blocks: Blocks, corpus: CorpusStore, encoder: Encoder, known: KnownVectors | None = None) -> None:
    """Encodes every block that is not there; killed at any point, the next call goes on behind the last whole block.

    What is `known` is copied.
    """
    paths = blocks.paths()
    there = sum(1 for path in paths if path.exists())
    already = min(len(corpus), there * blocks.size)
    resumed = f" (going on behind {already:,} encoded before)" if there else ""
    with Progress(f"encoding{resumed}", len(corpus), already) as progress:
        for number, path in enumerate(paths):
            if not path.exists():
                start = number * blocks.size
                _write(path, _encode(corpus, encoder, start, min(start + blocks.size, len(corpus)), progress, known))
    if known is not None:
        say(f"{known.used:,} of {len(corpus):,} passages were encoded before and are the same")


def _encode(corpus: CorpusStore, encoder: Encoder, start: int, end: int, progress: Progress, known: KnownVectors | None) -> Vectors:
    """Rows [start, end), encoded longest first in small steps, so that progress shows and little of a step is padding."""
    texts = [corpus[row].contents for row in range(start, end)]
    copied = known.of(texts) if known is not None else {}
    order = sorted((row for row in range(len(texts)) if row not in copied), key=lambda row: -len(texts[row]))
    vectors = np.empty((len(texts), encoder.identity.dimension), dtype=np.float32)
    for row, vector in copied.items():
        vectors[row] = vector
    progress.advance(len(copied))
    for first in range(0, len(order), _STEP):
        rows = order[first : first + _STEP]
        vectors[rows] = encoder.encode_passages([texts[row] for row in rows])
        progress.advance(len(rows))
    if not np.isfinite(vectors).all():
        bad = corpus[start + int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])]
        raise ConfigurationError(
            f"The encoder {encoder.identity} gives no finite vector for passage {bad.id!r}. Its weights are damaged."
        )
    return vectors


def _write(path: Path, vectors: Vectors) -> None:
    staged = path.with_suffix(".part")
    with staged.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    sync_folder(path.parent)
