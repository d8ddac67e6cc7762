"""Exact search with FAISS's GPU index over fp16 vectors, through cuVS where the installed FAISS has it."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import torch

from retriever.gpu.loading import VectorFile, on_host
from retriever.gpu.ordering import Found

_TEMPORARY_BYTES = 512 << 20
_ADDED_BYTES = 1 << 30  # each add moves all vectors within the device, so few large ones


class FaissShard:
    """Rows [start, end) of `file` in a GpuIndexFlat of one device; temporary memory is bounded. Ties go as FAISS has them."""

    def __init__(self, file: VectorFile, start: int, end: int, device: torch.device, use_cuvs: bool = True) -> None:
        self.rows, self.device = end - start, device
        self._resources = faiss.StandardGpuResources()
        self._resources.setTempMemory(_TEMPORARY_BYTES)
        self._index = self._empty(file.dimension, use_cuvs)
        rows = on_host(file, start, end)
        step = max(1, _ADDED_BYTES // file.row_bytes)
        for at in range(0, self.rows, step):
            self._index.add(np.ascontiguousarray(rows[at : at + step].numpy(), dtype=np.float32))

    def search(self, queries: torch.Tensor, top_k: int) -> Found:
        scores, rows = self._index.search(queries.cpu().numpy(), min(top_k, self.rows))
        found = torch.from_numpy(scores).to(self.device), torch.from_numpy(rows).to(self.device)
        return Found(torch.where(found[1] < 0, -torch.inf, found[0]), found[1])

    def _empty(self, dimension: int, use_cuvs: bool) -> Any:
        config = faiss.GpuIndexFlatConfig()
        config.device, config.useFloat16, config.use_cuvs = self.device.index or 0, True, use_cuvs
        return faiss.GpuIndexFlatIP(self._resources, dimension, config)
