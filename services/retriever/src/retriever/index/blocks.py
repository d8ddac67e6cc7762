"""Encoded blocks on disk: the checkpoints of a build. A block is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from parallelsearch.errors import ConfigurationError
from retriever.corpus.store import CorpusStore
from retriever.encoders.identity import Encoder, Vectors
from retriever.index.manifest import sync_folder
from retriever.index.progress import Progress

BLOCK_PASSAGES = 2_048
_STEP = 64


def block_paths(folder: Path, passages: int) -> list[Path]:
    return [folder / f"block-{start // BLOCK_PASSAGES:07}.npy" for start in range(0, passages, BLOCK_PASSAGES)]


def encode_blocks(folder: Path, corpus: CorpusStore, encoder: Encoder) -> None:
    """Encodes every block that `folder` lacks; killed at any point, the next call goes on behind the last whole block."""
    paths = block_paths(folder, len(corpus))
    there = sum(1 for path in paths if path.exists())
    already = min(len(corpus), there * BLOCK_PASSAGES)
    resumed = f" (going on behind {already:,} encoded before)" if there else ""
    with Progress(f"encoding{resumed}", len(corpus), already) as progress:
        for number, path in enumerate(paths):
            if not path.exists():
                start = number * BLOCK_PASSAGES
                _write(path, _encode(corpus, encoder, start, min(start + BLOCK_PASSAGES, len(corpus)), progress))


def read_blocks(folder: Path, passages: int) -> Iterator[Vectors]:
    for path in block_paths(folder, passages):
        yield np.load(path, allow_pickle=False)


def _encode(corpus: CorpusStore, encoder: Encoder, start: int, end: int, progress: Progress) -> Vectors:
    """Rows [start, end), encoded longest first in small steps, so that progress shows and little of a step is padding."""
    texts = [corpus[row].contents for row in range(start, end)]
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    vectors = np.empty((len(texts), encoder.identity.dimension), dtype=np.float32)
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
