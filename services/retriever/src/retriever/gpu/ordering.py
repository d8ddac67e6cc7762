"""The order of results: higher score first, equal scores by lower id, on every device and for every engine.

A score and an id make one 64-bit integer whose order is that order, so one plain top-k is deterministic, ties and all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_LOW = 0xFFFFFFFF
NOTHING = -1


@dataclass(frozen=True, slots=True)
class Found:
    """Scores (queries, k), float32, and ids (queries, k), int64, best first; −inf and −1 where there is nothing further."""

    scores: torch.Tensor
    ids: torch.Tensor


def best(scores: torch.Tensor, ids: torch.Tensor, count: int) -> Found:
    """The `count` best along the last axis; at most as many as there are.

    `scores` is float32 without NaN, `ids` int64 in [0, 2³²) of the same shape or one that broadcasts; a score of −inf is nothing.
    """
    bits = (scores + 0.0).view(torch.int32)  # + 0.0 makes −0 equal to 0
    ascending = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(torch.int64)
    keys = (ascending << 32) | (_LOW - ids)
    top = keys.topk(min(count, keys.shape[-1]), dim=-1).values
    bits = (top >> 32).to(torch.int32)
    found = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(torch.float32)
    return Found(found, torch.where(found == -torch.inf, NOTHING, _LOW - (top & _LOW)))


def merge(parts: list[Found], count: int) -> Found:
    """The best of several results for the same queries, all on one device, their ids disjoint."""
    ids = torch.cat([part.ids for part in parts], dim=-1)
    return best(torch.cat([part.scores for part in parts], dim=-1), ids.clamp(min=0), count)


def stacked(parts: list[Found]) -> Found:
    """Results of different queries, one after another."""
    if len(parts) == 1:
        return parts[0]
    return Found(torch.cat([part.scores for part in parts]), torch.cat([part.ids for part in parts]))


def padded(found: Found, count: int) -> Found:
    """`found` with exactly `count` columns."""
    missing = count - found.scores.shape[-1]
    if missing <= 0:
        return found
    grow = (0, missing)
    return Found(
        torch.nn.functional.pad(found.scores, grow, value=-torch.inf), torch.nn.functional.pad(found.ids, grow, value=NOTHING)
    )
