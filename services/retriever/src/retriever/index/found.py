"""What a search finds: scores and rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Both of shape (queries, top_k), best first; a row of −1 means that there is no further one."""


def nothing_found(queries: int, top_k: int) -> Found:
    """To be filled in."""
    return np.full((queries, top_k), -np.inf, dtype=np.float32), np.full((queries, top_k), -1, dtype=np.int64)
