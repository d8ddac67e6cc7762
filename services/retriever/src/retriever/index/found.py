"""What a search finds: scores and rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Both of shape (queries, top_k), best first; a row of −1 means that there is no further one."""


def nothing_found(queries: int, top_k: int) -> Found:
    """To be filled in."""
    return np.full((queries, top_k), -np.inf, dtype=np.float32), np.full((queries, top_k), -1, dtype=np.int64)


def in_order(scores: NDArray[np.float32], rows: NDArray[np.int64], top_k: int) -> Found:
    """The best `top_k` of what was found; ties go to the smaller row, so that the answer to a query never depends on how many
    passages others ask for."""
    last = np.iinfo(np.int64).max
    order = np.lexsort((np.where(rows < 0, last, rows), np.where(rows < 0, np.inf, -scores)), axis=1)[:, :top_k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
