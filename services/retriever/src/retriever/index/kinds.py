"""How each kind of index is filled from encoded blocks, in bounded memory.

flat      every vector, searched exactly; a .npy file
ivf_sq8   vectors in 8 bits, in cells of which a search visits a few; trained on rows spread evenly over the corpus
hnsw      a graph over float32 vectors
milvus    vectors in a Milvus collection, filled when the version is known (see `milvus`); here only their digest

Without a vector there is an empty file, which is not searched.

What an approximate kind visits per search (cells, or candidates of the graph) is chosen at the end of its build: the least
that finds `TARGET_RECALL` of what an exact search finds.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from retriever.encoders.identity import Vectors
from retriever.index.blocks import Blocks
from retriever.index.manifest import DIGEST_FILE, EXACT, FAISS_FILE, VECTORS_FILE, Effort, Kind
from retriever.index.progress import Progress, say

APPROXIMATE: tuple[Kind, ...] = ("ivf_sq8", "hnsw")
TARGET_RECALL = 0.98
TOP_K = 3

_HNSW_LINKS = 32
_COMPARED_AT_ONCE = 1_024
_ROWS_PER_CELL_TO_TRAIN = 64
_LEAST_ROWS_PER_CELL = 39
_EFFORTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def assemble(kind: Kind, blocks: Blocks, data: Path, dimension: int, queries: Vectors | None = None) -> Effort:
    """Writes the index file into `data` from the blocks; `queries` are the vectors that the recall of an approximate kind is
    measured with."""
    if kind == "flat":
        write_vectors(blocks, data / VECTORS_FILE, dimension)
        return EXACT
    if kind == "milvus":
        digest = hashlib.sha256()
        for _, block in blocks:
            digest.update(np.ascontiguousarray(block, dtype="<f4").data)
        (data / DIGEST_FILE).write_text(digest.hexdigest() + "\n")
        return EXACT
    if not blocks.rows:
        faiss.write_index(faiss.IndexFlatIP(dimension), str(data / FAISS_FILE))
        return EXACT
    if queries is None:
        raise ValueError(f"the effort of {kind} is chosen by queries, and there are none")
    index = _trained(kind, blocks, dimension)
    with Progress(f"filling the {kind} index", blocks.rows) as progress:
        for _, block in blocks:
            index.add(block)
            progress.advance(len(block))
    effort = _least_effort(kind, index, queries, _exact_top(blocks, queries))
    with Progress("writing the index"):
        faiss.write_index(index, str(data / FAISS_FILE))
    return effort


def set_effort(index: Any, visits: int) -> None:
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = visits
    else:
        index.hnsw.efSearch = visits


def write_vectors(blocks: Blocks, target: Path, dimension: int) -> None:
    """The blocks as one .npy file of shape (rows, dimension), a block at a time."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (blocks.rows, dimension)}
    with Progress("assembling", blocks.rows) as progress, target.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
        for _, block in blocks:
            file.write(np.ascontiguousarray(block, dtype="<f4").data)
            progress.advance(len(block))


def cells_for(rows: int) -> int:
    """4 √rows, as FAISS advises, but never so many that a cell could not be trained."""
    return max(1, min(int(4 * math.sqrt(rows)), rows // _LEAST_ROWS_PER_CELL))


def _trained(kind: Kind, blocks: Blocks, dimension: int) -> Any:
    if kind == "hnsw":
        return faiss.IndexHNSWFlat(dimension, _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    cells = cells_for(blocks.rows)
    sample = _spread(blocks, min(blocks.rows, cells * _ROWS_PER_CELL_TO_TRAIN), dimension)
    quantizer = faiss.IndexFlatIP(dimension)
    index = faiss.IndexIVFScalarQuantizer(quantizer, dimension, cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    with Progress(f"training {cells} cells on {len(sample):,} vectors"):
        index.train(sample)
    return index


def _spread(blocks: Blocks, wanted: int, dimension: int) -> Vectors:
    """`wanted` rows, evenly spread, so that the same corpus always trains the same cells."""
    chosen = np.linspace(0, blocks.rows - 1, wanted).astype(np.int64)
    sample = np.empty((wanted, dimension), dtype=np.float32)
    for start, block in blocks:
        here = (chosen >= start) & (chosen < start + len(block))
        sample[here] = block[chosen[here] - start]
    return sample


def _exact_top(blocks: Blocks, queries: Vectors) -> NDArray[np.int64]:
    """The exact top 3 of each query, kept up to date block by block."""
    scores = np.full((len(queries), TOP_K), -np.inf, dtype=np.float32)
    best = np.full((len(queries), TOP_K), -1, dtype=np.int64)
    with Progress("searching exactly, to compare", blocks.rows) as progress:
        for start, block in blocks:
            for first in range(0, len(block), _COMPARED_AT_ONCE):
                part = block[first : first + _COMPARED_AT_ONCE]
                rows = np.arange(start + first, start + first + len(part))
                joined = np.concatenate([scores, queries @ part.T], axis=1)
                names = np.concatenate([best, np.broadcast_to(rows, (len(queries), len(part)))], axis=1)
                order = np.argsort(-joined, axis=1, kind="stable")[:, :TOP_K]
                scores, best = np.take_along_axis(joined, order, 1), np.take_along_axis(names, order, 1)
            progress.advance(len(block))
    return best


def _least_effort(kind: Kind, index: Any, queries: Vectors, exact: NDArray[np.int64]) -> Effort:
    most = index.nlist if isinstance(index, faiss.IndexIVF) else _EFFORTS[-1]
    effort = Effort(most, 0.0)
    for visits in [each for each in _EFFORTS if each < most] + [most]:
        set_effort(index, visits)
        _, found = index.search(queries, TOP_K)
        effort = Effort(visits, round(recall(exact, found), 4))
        if effort.recall_at_3 >= TARGET_RECALL:
            break
    what = "cells" if kind == "ivf_sq8" else "candidates"
    say(f"recall@3 against exact search {effort.recall_at_3:.4f}, visiting {effort.visits} {what} ({len(queries)} queries)")
    return effort


def recall(exact: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    """The share of the exact neighbours that were found; −1 stands for none."""
    wanted = [set(row[row >= 0].tolist()) for row in exact]
    hits = sum(len(each & set(row.tolist())) for each, row in zip(wanted, found, strict=True))
    return hits / max(1, sum(map(len, wanted)))
