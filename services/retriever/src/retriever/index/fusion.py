"""The fusion of rankings of different kinds into one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retriever.index.found import Found

RRF_CONSTANT = 60
FUSED_DEPTH = 100


def fuse(rankings: Sequence[NDArray[np.int64]], top_k: int) -> Found:
    """Reciprocal rank fusion: a row scores Σ 1 / (60 + rank) over the rankings it stands in (Cormack, Clarke and Büttcher, 2009).

    Rankings are of shape (queries, depth) with −1 for none; the result is of shape (queries, top_k). Ties go to the smaller row.
    """
    scores = np.zeros((len(rankings[0]), top_k), dtype=np.float32)
    rows = np.full((len(rankings[0]), top_k), -1, dtype=np.int64)
    for query in range(len(rankings[0])):
        fused: dict[int, float] = {}
        for ranking in rankings:
            for rank, row in enumerate(ranking[query].tolist(), start=1):
                if row >= 0:
                    fused[row] = fused.get(row, 0.0) + 1 / (RRF_CONSTANT + rank)
        best = sorted(fused.items(), key=lambda item: (-item[1], item[0]))[:top_k]
        rows[query, : len(best)] = [row for row, _ in best]
        scores[query, : len(best)] = [score for _, score in best]
    return scores, rows
