"""Exact search with plain torch: a matrix product for each block of rows. Runs anywhere; the measure of the others."""

from __future__ import annotations

import torch

from retriever.gpu.ordering import Found, merge
from retriever.gpu.tournament import best_chunks, best_rows, empty_maxima

_TEMPORARY_BYTES = 512 << 20
_CHUNK = 128


class TorchShard:
    """Vectors (rows, dimension), fp16 or float32; scores are accumulated in float32 and ties go to the lower row."""

    def __init__(self, vectors: torch.Tensor, temporary_bytes: int = _TEMPORARY_BYTES) -> None:
        self._vectors = vectors
        self._temporary_bytes = temporary_bytes
        self.rows, self.device = len(vectors), vectors.device

    def search(self, queries: torch.Tensor, top_k: int) -> Found:
        step = max(1, self._temporary_bytes // (4 * _CHUNK * len(queries))) * _CHUNK
        parts = []
        for start in range(0, self.rows, step):
            found = _best_of(_product(queries, self._vectors[start : start + step]), top_k)
            parts.append(Found(found.scores, torch.where(found.ids < 0, found.ids, found.ids + start)))
        return merge(parts, top_k)


def _product(queries: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Scores (queries, rows up to a whole chunk), float32: −inf behind the last row."""
    if vectors.is_cuda and vectors.dtype == torch.float16:
        scores = torch.mm(queries.half(), vectors.T, out_dtype=torch.float32)
    else:
        scores = queries @ vectors.float().T
    missing = -len(vectors) % _CHUNK
    return torch.nn.functional.pad(scores, (0, missing), value=-torch.inf) if missing else scores


def _best_of(scores: torch.Tensor, count: int) -> Found:
    queries, width = scores.shape
    chunked = scores.view(queries, width // _CHUNK, _CHUNK)
    maxima = empty_maxima(width // _CHUNK, queries, scores.device)
    maxima[: width // _CHUNK] = chunked.amax(dim=2).t()
    chosen = best_chunks(maxima, queries, count).ids
    near = chunked.gather(1, chosen.clamp(min=0)[:, :, None].expand(-1, -1, _CHUNK))
    return best_rows(near.masked_fill((chosen < 0)[:, :, None], -torch.inf), chosen, count)
