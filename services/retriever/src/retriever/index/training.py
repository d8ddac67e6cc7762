"""Trains the cells of `ivf_sq8` on rows spread evenly over the corpus, so that the same corpus always gives the same cells.

The rows are held as the index holds its own, in 8 bits, and decoded a part at a time: what a training takes is never more than
the index that is filled after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from retriever.encoders.identity import Vectors
from retriever.index.blocks import PART, Blocks
from retriever.index.progress import Progress

_ROWS_PER_CELL = 64
_LEAST_ROWS_PER_CELL = 39


def cells_for(rows: int) -> int:
    """4 √rows, as FAISS advises, but never so many that a cell could not be trained."""
    return max(1, min(int(4 * math.sqrt(rows)), rows // _LEAST_ROWS_PER_CELL))


def trained_ivf(blocks: Blocks, dimension: int) -> Any:
    """An empty `IndexIVFScalarQuantizer` that is ready to be filled."""
    cells = cells_for(blocks.rows)
    wanted = min(blocks.rows, cells * _ROWS_PER_CELL)
    quantizer = faiss.IndexFlatIP(dimension)
    index = faiss.IndexIVFScalarQuantizer(quantizer, dimension, cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    with Progress(f"training {cells} cells on {wanted:,} vectors"):
        codec = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_8bit)
        codec.train(_ranges(part for _, part in blocks))
        clustering = faiss.Clustering(dimension, cells, index.cp)
        clustering.min_points_per_centroid, clustering.decode_block_size = 1, PART
        clustering.train_encoded(_spread(blocks, wanted, codec), codec, quantizer)
        index.sq.train(_ranges(part - quantizer.reconstruct_batch(quantizer.assign(part, 1)[:, 0]) for _, part in blocks))
        index.is_trained = True
    return index


def _spread(blocks: Blocks, wanted: int, codec: Any) -> NDArray[np.uint8]:
    """`wanted` rows, evenly spread, in 8 bits."""
    chosen = np.linspace(0, blocks.rows - 1, wanted).astype(np.int64)
    sample = np.empty((wanted, codec.sa_code_size()), dtype=np.uint8)
    for start, part in blocks:
        first, last = np.searchsorted(chosen, (start, start + len(part)))
        sample[first:last] = codec.sa_encode(part[chosen[first:last] - start])
    return sample


def _ranges(parts: Iterable[Vectors]) -> Vectors:
    """The least and the most of each dimension, shape (2, dimension): all that 8 bits are trained on."""
    found: Vectors | None = None
    for part in parts:
        both = part if found is None else np.concatenate([found, part])
        found = np.stack([both.min(axis=0), both.max(axis=0)])
    if found is None:
        raise ValueError("there is no row to train on")
    return found
