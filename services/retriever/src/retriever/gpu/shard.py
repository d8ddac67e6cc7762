"""What an engine is: it searches the part of the index that one device holds."""

from __future__ import annotations

from typing import Protocol

import torch

from retriever.gpu.ordering import Found


class Shard(Protocol):
    """A run of rows of the index on one device. Not thread-safe: one owner calls it."""

    @property
    def rows(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def search(self, queries: torch.Tensor, top_k: int) -> Found:
        """The best rows of this shard, numbered from 0, for queries (n, dimension), float32, on the shard's device.

        At most `top_k` columns. Does not wait for the device where it can avoid it, so that shards run side by side.
        """
        ...
