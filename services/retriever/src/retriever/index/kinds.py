"""How each kind of index is filled from encoded blocks, in bounded memory.

flat      every vector, searched exactly; a .npy file
ivf_sq8   vectors in 8 bits, in cells of which a search visits a few (see `training`)
hnsw      a graph over float32 vectors
milvus    vectors in a Milvus collection, filled when the version is known (see `milvus`); here only their digest

Without a vector there is an empty file, which is not searched.

What an approximate kind visits per search (cells, or candidates of the graph) is chosen at the end of its build: the least
that finds `TARGET_RECALL` of what an exact search finds.
"""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from retriever.encoders.identity import Vectors
from retriever.index.blocks import Blocks, write_header
from retriever.index.manifest import DIGEST_FILE, EXACT, FAISS_FILE, VECTORS_FILE, Effort, Kind
from retriever.index.progress import Progress, say
from retriever.index.training import trained_ivf

APPROXIMATE: tuple[Kind, ...] = ("ivf_sq8", "hnsw")
TARGET_RECALL = 0.98
TOP_K = 3
DEPTH = 100
"""Rows that an approximate search keeps at least: a graph is searched the wider the more are kept, so with the number that was
asked for a query would find other passages in company than alone."""

_HNSW_LINKS = 32
_REASON = re.compile(r"\(([^()]+)\)\Z")
_EFFORTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def assemble(kind: Kind, blocks: Blocks, data: Path, dimension: int, queries: Vectors | None = None) -> Effort:
    """Writes the index file into `data` from the blocks; `queries` are the vectors that the recall of an approximate kind is
    measured with."""
    if kind == "flat":
        write_vectors(blocks, data / VECTORS_FILE, dimension)
        return EXACT
    if kind == "milvus":
        digest = hashlib.sha256()
        for _, part in blocks:
            digest.update(part.data)
        (data / DIGEST_FILE).write_text(digest.hexdigest() + "\n")
        return EXACT
    if not blocks.rows:
        faiss.write_index(faiss.IndexFlatIP(dimension), str(data / FAISS_FILE))
        return EXACT
    if queries is None:
        raise ValueError(f"the effort of {kind} is chosen by queries, and there are none")
    index = trained_ivf(blocks, dimension) if kind == "ivf_sq8" else _empty_graph(blocks.rows, dimension)
    with Progress(f"filling the {kind} index", blocks.rows) as progress:
        for _, part in blocks:
            index.add(part)
            progress.advance(len(part))
    effort = _least_effort(kind, index, queries, _exact_top(blocks, queries))
    with Progress("writing the index"):
        _write_index(index, data / FAISS_FILE)
    return effort


def _write_index(index: Any, target: Path) -> None:
    """Raises OSError where it does not fit; FAISS itself calls that a RuntimeError, and says why at the end, in brackets."""
    try:
        faiss.write_index(index, str(target))
    except RuntimeError as error:
        said = str(error).strip()
        why = _REASON.search(said)
        raise OSError(errno.EIO, why[1] if why else said, str(target)) from error


def _empty_graph(rows: int, dimension: int) -> Any:
    """With room for all vectors from the start: grown by doubling, they would be held twice for a moment."""
    index = faiss.IndexHNSWFlat(dimension, _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    storage: Any = faiss.downcast_index(index.storage)
    storage.codes.resize(rows * storage.code_size)
    storage.codes.resize(0)
    return index


def set_effort(index: Any, visits: int) -> None:
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = visits
    else:
        index.hnsw.efSearch = visits


def write_vectors(blocks: Blocks, target: Path, dimension: int) -> None:
    """The blocks as one .npy file of shape (rows, dimension)."""
    with Progress("assembling", blocks.rows) as progress, target.open("wb") as file:
        write_header(file, blocks.rows, dimension)
        for _, part in blocks:
            file.write(part.data)
            progress.advance(len(part))


def _exact_top(blocks: Blocks, queries: Vectors) -> NDArray[np.int64]:
    """The exact top 3 of each query, kept up to date part by part; −1 where there is no further one."""
    best = faiss.ResultHeap(len(queries), TOP_K, keep_max=True)
    with Progress("searching exactly, to compare", blocks.rows) as progress:
        for start, part in blocks:
            scores, rows = faiss.knn(queries, part, min(TOP_K, len(part)), faiss.METRIC_INNER_PRODUCT)
            best.add_result(scores, rows + start)
            progress.advance(len(part))
    best.finalize()
    found: NDArray[np.int64] = best.I
    return found


def _least_effort(kind: Kind, index: Any, queries: Vectors, exact: NDArray[np.int64]) -> Effort:
    most = index.nlist if isinstance(index, faiss.IndexIVF) else _EFFORTS[-1]
    effort = Effort(most, 0.0)
    least = DEPTH if kind == "hnsw" else 1
    for visits in [each for each in _EFFORTS if least <= each < most] + [most]:
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
