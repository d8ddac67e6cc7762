"""Encoded blocks on disk: the checkpoints of a build. A block is there whole or not at all.

Of its vectors a build holds `PART` rows at a time, however large the blocks are: they are encoded, written and read in such parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from parallelsearch.errors import ConfigurationError
from retriever.corpus.store import CorpusStore
from retriever.encoders.identity import Encoder, Vectors
from retriever.index.known import KnownVectors
from retriever.index.manifest import sync_folder
from retriever.index.progress import Progress, say

PART = 1_024
"""Rows; sorted by length among so many, hardly a text is encoded with padding."""
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
        """All vectors in parts, each with the number of its first row. One array holds them in turn: a part is good until the
        next is asked for."""
        room: Vectors | None = None
        for number, path in enumerate(self.paths()):
            with path.open("rb") as file:
                np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
                (rows, dimension), _, _ = np.lib.format.read_array_header_1_0(file)  # type: ignore[no-untyped-call]
                room = np.empty((PART, dimension), np.float32) if room is None else room
                for first in range(0, rows, PART):
                    part = room[: min(PART, rows - first)]
                    file.readinto(part.data.cast("B"))
                    yield number * self.size + first, part


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
                rows = range(start, min(start + blocks.size, len(corpus)))
                _write(path, rows, _Encoding(corpus, encoder, progress, known))
    if known is not None:
        say(f"{known.used:,} of {len(corpus):,} passages were encoded before and are the same")


def write_header(file: IO[bytes], rows: int, dimension: int) -> None:
    """What stands before the vectors in a .npy file."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Encoding:
    corpus: CorpusStore
    encoder: Encoder
    progress: Progress
    known: KnownVectors | None

    def vectors(self, rows: Sequence[int]) -> Vectors:
        """Of a few rows, encoded longest first in small steps, so that progress shows and little of a step is padding.

        Raises:
            ConfigurationError: the encoder gives no finite vector for one of them.
        """
        texts = [self.corpus[row].contents for row in rows]
        vectors = np.empty((len(texts), self.encoder.identity.dimension), dtype="<f4")
        copied = self.known.of(texts) if self.known is not None else {}
        for place, vector in copied.items():
            vectors[place] = vector
        self.progress.advance(len(copied))
        order = sorted((place for place in range(len(texts)) if place not in copied), key=lambda place: -len(texts[place]))
        for first in range(0, len(order), _STEP):
            places = order[first : first + _STEP]
            vectors[places] = self.encoder.encode_passages([texts[place] for place in places])
            self.progress.advance(len(places))
        if not np.isfinite(vectors).all():
            bad = self.corpus[rows[int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])]]
            raise ConfigurationError(
                f"The encoder {self.encoder.identity} gives no finite vector for passage {bad.id!r}. Its weights are damaged."
            )
        return vectors


def _write(path: Path, rows: range, encoding: _Encoding) -> None:
    staged = path.with_suffix(".part")
    with staged.open("wb") as file:
        write_header(file, len(rows), encoding.encoder.identity.dimension)
        for first in range(0, len(rows), PART):
            file.write(encoding.vectors(rows[first : first + PART]).data)
            encoding.corpus.release()
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    sync_folder(path.parent)
