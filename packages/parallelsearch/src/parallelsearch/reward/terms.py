"""The terms of the reward, each a function with its formula. Source: ParallelSearch, arXiv 2508.09303, and its published code.

The order of operations is that of the published code, so that sums agree with it to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from parallelsearch.rollout.types import Kind

IDEAL_SEARCHES = 1
"""Of parallel and unlabelled questions."""
IDEAL_SEQUENTIAL_SEARCHES = 2
IDEAL_HYBRID_SEARCHES = 2
MAX_WEIGHT, MAX_ALPHA, MAX_FORMAT = 1_000, 100, 1
"""Of λd and λs, of α, and of the format weight, wherever they are set: no reward of such weights comes near what trainers clip."""


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """λd, α, λs and the format weight; the defaults are the paper's."""

    decomposition: float = 0.15
    alpha: float = 3.0
    search_count: float = 0.35
    format: float = 0.1


def outcome_and_format(*, matched: bool, well_formed: bool, weights: RewardWeights) -> float:
    """Match and well formed 1; match alone 1 − f; form alone f; neither 0."""
    if matched:
        return 1.0 if well_formed else 1.0 - weights.format
    return weights.format if well_formed else 0.0


def decomposition(kind: Kind, *, decomposed: bool, weights: RewardWeights) -> float:
    """λd·α for a decomposed first search where the kind asks for one; λd for none (or no search) where it does not; else 0."""
    if kind in {Kind.PARALLEL, Kind.HYBRID}:
        return weights.decomposition * weights.alpha if decomposed else 0.0
    return 0.0 if decomposed else weights.decomposition


def search_count(kind: Kind, searches: int, weights: RewardWeights) -> float:
    """λs − |n − 1|·λs; for sequential questions λs − |min(n, 2) − 2|·λs, for hybrid ones λs − |n − 2|·λs."""
    if kind is Kind.SEQUENTIAL:
        distance = abs(min(searches, IDEAL_SEQUENTIAL_SEARCHES) - IDEAL_SEQUENTIAL_SEARCHES)
    elif kind is Kind.HYBRID:
        distance = abs(searches - IDEAL_HYBRID_SEARCHES)
    else:
        distance = abs(searches - IDEAL_SEARCHES)
    return weights.search_count - distance * weights.search_count


def repetition(repeated_searches: int, weights: RewardWeights) -> float:
    """−λs for each search without a sub-query new to the rollout. Ours: the published function pays such searches."""
    return -(repeated_searches * weights.search_count) if repeated_searches else 0.0
