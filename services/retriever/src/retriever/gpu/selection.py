"""The steps of `tournament` as one Triton kernel each, for the few results that a search asks for as a rule.

A program owns one query: it keeps all of that query's keys (see `ordering`) in registers and takes the best one out,
`count` times. Beyond what registers hold, the steps of `tournament` in plain torch give the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from retriever.gpu import tournament
from retriever.gpu.ordering import Found, best

_MOST_TAKEN, _WIDEST = 64, 16_384


@triton.jit  # type: ignore[untyped-decorator]
def _take_best(
    scores: tl.tensor,
    chosen: tl.tensor,
    found_scores: tl.tensor,
    found_ids: tl.tensor,
    width: tl.tensor,
    count: tl.tensor,
    query_stride: tl.tensor,
    place_stride: tl.tensor,
    PART: tl.constexpr,
    PARTS_APART: tl.constexpr,
    CHOSEN: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    query = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, WIDTH).to(tl.int64)
    there = place < width
    ids = place
    if CHOSEN:
        part = tl.load(chosen + query * (width // PART) + place // PART, mask=there, other=-1)
        there = there & (part >= 0)
        ids = part * PART + place % PART
    at = scores + query * query_stride + (ids if PARTS_APART else place) * place_stride
    bits = (tl.load(at, mask=there, other=float("-inf")) + 0.0).to(tl.int32, bitcast=True)
    ascending = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    keys = tl.where(there, (ascending << 32) | (0xFFFFFFFF - ids), -0x7FFFFFFFFFFFFFFF)
    for taken in range(count):
        top = tl.max(keys, axis=0)
        top_bits = (top >> 32).to(tl.int32)
        score = (top_bits ^ ((top_bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
        real = score > float("-inf")  # false too for the NaN that stands where no key was
        tl.store(found_scores + query * count + taken, tl.where(real, score, float("-inf")))
        tl.store(found_ids + query * count + taken, tl.where(real, 0xFFFFFFFF - (top & 0xFFFFFFFF), -1))
        keys = tl.where(keys == top, -0x7FFFFFFFFFFFFFFF, keys)


def best_chunks(maxima: torch.Tensor, queries: int, count: int) -> Found:
    """As `tournament.best_chunks`."""
    groups = len(maxima) // tournament.GROUP
    taken = min(count, groups)
    if count > _MOST_TAKEN or max(groups, taken * tournament.GROUP) > _WIDEST:
        return tournament.best_chunks(maxima, queries, count)
    group_best = maxima.view(groups, tournament.GROUP, -1).amax(dim=1)
    chosen = _launch(group_best, None, queries, groups, taken, strides=(1, maxima.shape[1])).ids
    width = taken * tournament.GROUP
    return _launch(maxima, chosen, queries, width, min(count, width), strides=(1, maxima.shape[1]), part=tournament.GROUP)


def best_rows(scores: torch.Tensor, chosen: torch.Tensor, count: int) -> Found:
    """As `tournament.best_rows`."""
    queries, parts, part = scores.shape
    width = parts * part
    if count > _MOST_TAKEN or width > _WIDEST:
        return tournament.best_rows(scores, chosen, count)
    return _launch(scores, chosen, queries, width, min(count, width), strides=(width, 1), part=part, apart=False)


def best_listed(scores: torch.Tensor, rows: torch.Tensor, count: int) -> Found:
    """The best of the listed rows (queries, n), int64, −1 for none, by their scores of the same shape."""
    queries, width = rows.shape
    if count > _MOST_TAKEN or width > _WIDEST:
        return best(scores.masked_fill(rows < 0, -torch.inf), rows.clamp(min=0), count)
    return _launch(scores, rows, queries, width, min(count, width), strides=(width, 1), apart=False)


def _launch(
    scores: torch.Tensor,
    chosen: torch.Tensor | None,
    queries: int,
    width: int,
    count: int,
    *,
    strides: tuple[int, int],
    part: int = 1,
    apart: bool = True,
) -> Found:
    """The best of `width` scores of each query; `apart` says that chosen parts lie at their own place, not one after another."""
    found = torch.empty((queries, count), dtype=torch.float32, device=scores.device)
    ids = torch.empty((queries, count), dtype=torch.int64, device=scores.device)
    padded = triton.next_power_of_2(width)
    _take_best[(queries,)](
        scores,
        ids if chosen is None else chosen,
        found,
        ids,
        width,
        count,
        *strides,
        PART=part,
        PARTS_APART=apart and chosen is not None,
        CHOSEN=chosen is not None,
        WIDTH=padded,
        num_warps=min(16, max(1, padded // 256)),
    )
    return Found(found, ids)
