"""From the best score of each chunk to the chunks that can hold the best rows.

The k best rows lie in the k chunks whose own best rows are best: a chunk left out is beaten by one row from each of k
chunks. With chunks in the order of their rows, and equal scores going to the lower id, this holds for ties too. The same
argument one level up, over groups of chunks, spares a top-k over all of them.
"""

from __future__ import annotations

import torch

from retriever.gpu.ordering import Found, best

GROUP = 128


def empty_maxima(chunks: int, queries: int, device: torch.device) -> torch.Tensor:
    """Room for maxima, (chunks rounded up to whole groups, queries), what lies behind the last chunk being −inf."""
    whole = -(-chunks // GROUP) * GROUP
    maxima = torch.empty((whole, queries), dtype=torch.float32, device=device)
    maxima[chunks:] = -torch.inf
    return maxima


def best_chunks(maxima: torch.Tensor, queries: int, count: int) -> Found:
    """The `count` best chunks of each query: their maxima and ids, −∞ and −1 where there are no more.

    `maxima` is as `empty_maxima` makes it; only its first `queries` columns count.
    """
    groups = len(maxima) // GROUP
    by_group = maxima.view(groups, GROUP, -1)
    group_best = by_group.amax(dim=1)[:, :queries].t().contiguous()
    group_ids = torch.arange(groups, device=maxima.device)
    chosen = best(group_best, group_ids, count).ids.clamp(min=0)
    places = chosen[:, :, None] * GROUP + torch.arange(GROUP, device=maxima.device)
    query = torch.arange(queries, device=maxima.device)[:, None, None]
    scores = maxima[places, query]
    return best(scores.flatten(1), places.flatten(1), count)


def best_rows(scores: torch.Tensor, chosen: torch.Tensor, count: int) -> Found:
    """The best rows among the scores (queries, chosen chunks, rows of a chunk) of the chosen chunks."""
    chunk = scores.shape[-1]
    rows = chosen.clamp(min=0)[:, :, None] * chunk + torch.arange(chunk, device=scores.device)
    return best(scores.flatten(1), rows.flatten(1), count)
