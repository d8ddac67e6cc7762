"""Search over all devices of one host: every device holds a run of rows, all search at once, one merge follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from parallelsearch.errors import ConfigurationError
from retriever.gpu.ordering import Found, merge, padded
from retriever.gpu.shard import Shard

MakeShard = Callable[[int, int, torch.device], Shard]


class ShardedSearch:
    """The retriever's search interface over shards that follow one another in the order of their rows.

    Not thread-safe: one owner calls it.
    """

    def __init__(self, shards: Sequence[Shard], dimension: int) -> None:
        self._shards, self.dimension = tuple(shards), dimension
        self.rows = sum(shard.rows for shard in self._shards)

    def search(self, queries: NDArray[np.float32], top_k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores and rows, both (queries, top_k), best first, equal scores by row; −inf and −1 where there is no further row.

        Raises:
            ConfigurationError: the queries have another dimension than the index.
        """
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise ConfigurationError(f"Queries of shape {queries.shape} cannot search an index of {self.dimension} dimensions.")
        if not len(queries):
            return np.empty((0, top_k), np.float32), np.empty((0, top_k), np.int64)
        found = padded(self._search(torch.from_numpy(np.ascontiguousarray(queries, dtype=np.float32)), top_k), top_k)
        return found.scores.cpu().numpy(), found.ids.cpu().numpy()

    def close(self) -> None:
        """Gives the vectors' memory back for another index; nothing can be searched any more."""
        self._shards = ()

    def _search(self, queries: torch.Tensor, top_k: int) -> Found:
        first_row, parts = 0, []
        for shard in self._shards:
            with _current(shard.device):
                found = shard.search(queries.to(shard.device, non_blocking=True), min(top_k, shard.rows))
            parts.append(found if first_row == 0 else Found(found.scores, torch.where(found.ids < 0, -1, found.ids + first_row)))
            first_row += shard.rows
        if len(parts) == 1:
            return parts[0]
        home = parts[0].scores.device
        return merge([Found(part.scores.to(home), part.ids.to(home)) for part in parts], top_k)


def spread(rows: int, devices: Sequence[torch.device], make: MakeShard) -> list[Shard]:
    """One shard per device, of as equal a number of rows as can be; a device that would get none is left out."""
    bounds = [rows * number // len(devices) for number in range(len(devices) + 1)]
    parts = zip(devices, bounds, bounds[1:], strict=False)
    return [_made(make, start, end, device) for device, start, end in parts if end > start]


def _made(make: MakeShard, start: int, end: int, device: torch.device) -> Shard:
    with _current(device):
        return make(start, end, device)


def _current(device: torch.device) -> torch.cuda.device:
    """Kernels launch on the current device. Of no effect for the CPU."""
    return torch.cuda.device(device if device.type == "cuda" else -1)
