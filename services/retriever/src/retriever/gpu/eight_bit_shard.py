"""Search over vectors kept in 8 bits, the best candidates scored again from the rows on the host.

Three steps, each on far fewer rows than the one before: the best chunks by 8-bit queries (reads every vector once), the best
rows in them by float32 queries, and the best of those by their full vectors, which never leave the host otherwise.
"""

from __future__ import annotations

import torch

from retriever.gpu.eight_bit import EightBit
from retriever.gpu.fused_shard import maxima_of
from retriever.gpu.kernels import TILES_INT8, Tile, chunk_scores, eight_bit_queries, tile_for
from retriever.gpu.ordering import Found, stacked
from retriever.gpu.selection import best_chunks, best_listed, best_rows


class EightBitShard:
    """`kept` on a CUDA device; `host_rows` the same vectors in fp16 or float32 on the host.

    With `in_reach` the device reads them where they lie (pinned memory), so that a search never waits for the host; else (a
    memory-mapped file) the candidates' rows are gathered and sent. `candidates` rows of each query are scored exactly; more of
    them cost time and bring recall.
    """

    def __init__(
        self,
        kept: EightBit,
        host_rows: torch.Tensor,
        candidates: int = 16,
        tiles: tuple[Tile, ...] = TILES_INT8,
        *,
        in_reach: bool = False,
    ) -> None:
        self._kept, self._host_rows, self._tiles = kept, host_rows, tiles
        self._candidates, self._in_reach = candidates, in_reach
        self.rows, self.device = len(kept.codes), kept.codes.device

    def search(self, queries: torch.Tensor, top_k: int) -> Found:
        widest = self._tiles[-1].queries
        return stacked([self._search(part, top_k) for part in queries.split(widest)])

    def _search(self, queries: torch.Tensor, top_k: int) -> Found:
        near = self.candidates(queries, max(self._candidates, 2 * top_k))
        count = near.shape[1]
        if self._in_reach:
            scores = chunk_scores(self._host_rows, queries, None, near, 1)
        else:
            own = torch.arange(len(queries), device=self.device)[:, None]
            scores = chunk_scores(self._gather(near), queries, None, own, count)
        return best_listed(scores.view(-1, count), near, top_k)

    def candidates(self, queries: torch.Tensor, count: int) -> torch.Tensor:
        """Rows (queries, at most `count`) that score best in 8 bits, int64, −1 where there are no more."""
        tile = tile_for(len(queries), self._tiles)
        codes, scales = self._kept.codes, self._kept.scales
        chosen = best_chunks(maxima_of(codes, eight_bit_queries(queries), scales, tile), len(queries), count).ids
        return best_rows(chunk_scores(codes, queries, scales, chosen, tile.rows), chosen, count).ids

    def _gather(self, near: torch.Tensor) -> torch.Tensor:
        """The full vectors of these rows, (queries × candidates, dimension), on the device; any row stands for −1."""
        wanted = near.cpu().flatten().clamp_(min=0)
        pinned = self.device.type == "cuda"
        staged = torch.empty((len(wanted), self._host_rows.shape[1]), dtype=self._host_rows.dtype, pin_memory=pinned)
        torch.index_select(self._host_rows, 0, wanted, out=staged)
        return staged.to(self.device, non_blocking=True)
