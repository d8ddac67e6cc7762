"""Exact search at the speed of reading the vectors once: the kernels of `kernels`, held together by `tournament`."""

from __future__ import annotations

import torch

from retriever.gpu.kernels import TILES_FP16, Tile, chunk_maxima, chunk_scores, tile_for
from retriever.gpu.ordering import NOTHING, Found, stacked
from retriever.gpu.selection import best_chunks, best_rows
from retriever.gpu.tournament import empty_maxima

# Chunks are chosen by queries rounded to fp16, rows by float32 queries: the difference, about 1e-5, may swap neighbours.
_SPARE_CHUNKS = 8
_ROUNDING = 1.25 * 2**-11
"""At most what rounding changes a score by, over the lengths of query and vector; a quarter is for the order of the sums."""
_BLOCK_ROWS = 1 << 18


class FusedShard:
    """Vectors (rows, dimension), fp16, dimension a multiple of 16 up to 1,024, on a CUDA device.

    Scores are inner products of the float32 query with the fp16 row, accumulated in float32.
    """

    def __init__(self, vectors: torch.Tensor, tiles: tuple[Tile, ...] = TILES_FP16) -> None:
        self._vectors, self._tiles = vectors, tiles
        self.rows, self.device = len(vectors), vectors.device
        lengths = [torch.linalg.vector_norm(block, dim=1, dtype=torch.float32).amax() for block in vectors.split(_BLOCK_ROWS)]
        self._longest = torch.stack(lengths).amax()

    def search(self, queries: torch.Tensor, top_k: int) -> Found:
        widest = self._tiles[-1].queries
        return stacked([self._search(part, top_k) for part in queries.split(widest)])

    def _search(self, queries: torch.Tensor, top_k: int) -> Found:
        tile = tile_for(len(queries), self._tiles)
        maxima = maxima_of(self._vectors, queries.half(), None, tile)
        chosen = self._possible(best_chunks(maxima, len(queries), top_k + _SPARE_CHUNKS), queries, top_k)
        scores = chunk_scores(self._vectors, queries, None, chosen, tile.rows)
        return best_rows(scores, chosen, top_k)

    def _possible(self, chunks: Found, queries: torch.Tensor, top_k: int) -> torch.Tensor:
        """The ids of `chunks`, −1 for those so far behind the one at `top_k` that rounding cannot have put them there."""
        if chunks.ids.shape[1] <= top_k:
            return chunks.ids
        margin = 2 * _ROUNDING * self._longest * torch.linalg.vector_norm(queries, dim=1, keepdim=True)
        return chunks.ids.masked_fill(chunks.scores < chunks.scores[:, top_k - 1 : top_k] - margin, NOTHING)


def maxima_of(vectors: torch.Tensor, queries: torch.Tensor, scales: torch.Tensor | None, tile: Tile) -> torch.Tensor:
    """The best score of every chunk for every query, one launch over the whole shard."""
    chunks = -(-len(vectors) // tile.rows)
    maxima = empty_maxima(chunks, tile.queries, vectors.device)
    programs = min(chunks, _multiprocessors(vectors.device) * tile.programs_per_multiprocessor)
    chunk_maxima(vectors, queries, scales, maxima, tile, programs)
    return maxima


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":  # Triton's interpreter, in tests
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
