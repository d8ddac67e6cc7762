"""Nearest rows by inner product: exactly by torch, approximately by FAISS. Not thread-safe by contract: one owner calls it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from parallelsearch.errors import ConfigurationError
from retriever.encoders.identity import Vectors
from retriever.gpu.plan import GpuPlan
from retriever.index.found import Found, in_order, nothing_found
from retriever.index.kinds import DEPTH, set_effort
from retriever.index.manifest import FAISS_FILE, VECTORS_FILE, Effort, Kind, MilvusAddress
from retriever.products import product

_ROWS_AT_ONCE = 65_536


class VectorSearch(Protocol):
    """Rows of the index nearest to each query."""

    @property
    def rows(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    def search(self, queries: Vectors, top_k: int) -> Found:
        """Scores and rows, both of shape (queries, top_k), best first; a row of −1 means that there is no further one."""
        ...

    def close(self) -> None: ...


def open_search(
    data: Path, kind: Kind, effort: Effort, milvus: MilvusAddress | None = None, gpu: GpuPlan | None = None
) -> VectorSearch:
    """Opens the vectors of a version; `gpu` puts those of a flat index on GPUs.

    Raises:
        ConfigurationError: the vectors are in Milvus and nobody said where that is, or GPUs cannot search this index.
    """
    if gpu is not None and kind != "flat":
        raise ConfigurationError(f"RETRIEVER_SEARCH={gpu.engine} searches flat indexes, and this one is {kind}: leave it out.")
    if kind == "milvus":
        if milvus is None:
            raise ConfigurationError("The vectors of this index are in Milvus: set MILVUS_URI to where it runs.")
        from retriever.index.milvus import MilvusSearch

        return MilvusSearch(milvus, data.name)
    if gpu is not None:
        from retriever.gpu.opening import open_search as open_on_gpu

        return open_on_gpu(data / VECTORS_FILE, gpu)
    if kind == "flat":
        return FlatSearch(data / VECTORS_FILE)
    return ApproximateSearch(data / FAISS_FILE, effort)


class EmptySearch:
    """What an index without passages is searched with, whatever its kind."""

    rows = 0

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def search(self, queries: Vectors, top_k: int) -> Found:
        return nothing_found(len(queries), top_k)

    def close(self) -> None:
        """There is nothing to close."""


class FlatSearch:
    """Exact search over all vectors, read once from a .npy file: one matrix product and the best of each row.

    It finds the same rows as FAISS's flat index, in a fraction of the time for a batch (benchmarks/flat_search.py).
    """

    def __init__(self, vectors_file: Path) -> None:
        vectors: Vectors = np.load(vectors_file, mmap_mode="r", allow_pickle=False)
        self.rows, self.dimension = vectors.shape
        starts = range(0, self.rows, _ROWS_AT_ONCE)
        self._parts = [(start, product(torch.from_numpy(vectors[start : start + _ROWS_AT_ONCE].copy()))) for start in starts]

    def search(self, queries: Vectors, top_k: int) -> Found:
        found_scores, found_rows = nothing_found(len(queries), top_k)
        with torch.inference_mode():
            given = torch.from_numpy(queries)
            best = [_best(scores_of(given), start, top_k) for start, scores_of in self._parts]
        scores, rows = (np.concatenate(each, axis=1) for each in zip(*best, strict=True))
        scores, rows = in_order(scores, rows, top_k)
        found_scores[:, : scores.shape[1]], found_rows[:, : rows.shape[1]] = scores, rows
        return found_scores, found_rows

    def close(self) -> None:
        """Memory goes with the last reference."""


def _best(scores: torch.Tensor, first: int, top_k: int) -> Found:
    """The best of one part, whose first row is `first`; of ties the smaller rows."""
    count = min(top_k, scores.shape[1])
    values, places = torch.topk(scores, min(count + 1, scores.shape[1]), dim=1)
    if values.shape[1] > count:  # one more tells where the last place is tied, and topk takes any of those
        for query in torch.nonzero(values[:, count] == values[:, count - 1]).flatten().tolist():
            least = values[query, count - 1]
            better = torch.nonzero(scores[query] > least).flatten()
            tied = torch.nonzero(scores[query] == least).flatten()[: count - len(better)]
            places[query, :count] = torch.cat([better, tied])
            values[query, :count] = scores[query, places[query, :count]]
    return values[:, :count].numpy(), places[:, :count].numpy() + first


class ApproximateSearch:
    """Search over an index that FAISS wrote, with the effort its build chose."""

    def __init__(self, index_file: Path, effort: Effort) -> None:
        self._index = faiss.read_index(str(index_file))
        self.rows, self.dimension = self._index.ntotal, self._index.d
        set_effort(self._index, effort.visits)

    def search(self, queries: Vectors, top_k: int) -> Found:
        scores, rows = self._index.search(queries, max(top_k, DEPTH))  # fewer would visit less of a graph
        return in_order(scores, rows, top_k)

    def close(self) -> None:
        """Memory goes with the last reference."""


class FilteredSearch:
    """Exact search among some rows, over the vectors on disk: as exact for three rows as for three million."""

    def __init__(self, vectors_file: Path) -> None:
        self._vectors: Vectors = np.load(vectors_file, mmap_mode="r", allow_pickle=False)

    def search(self, queries: Vectors, top_k: int, among: NDArray[np.int64]) -> Found:
        """Scores and rows of shape (queries, top_k), best first; −1 where there is no further one. Ties go to the smaller row."""
        scores, rows = nothing_found(len(queries), top_k)
        for start in range(0, len(among), _ROWS_AT_ONCE):
            part = among[start : start + _ROWS_AT_ONCE]
            joined = np.concatenate([scores, queries @ self._vectors[part].T], axis=1)
            names = np.concatenate([rows, np.broadcast_to(part, (len(queries), len(part)))], axis=1)
            best = np.argsort(-joined, axis=1, kind="stable")[:, :top_k]
            scores, rows = np.take_along_axis(joined, best, 1), np.take_along_axis(names, best, 1)
        return scores, rows
