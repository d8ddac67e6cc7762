"""Scores a trajectory: the presets, and a breakdown into terms.

- `paper` gives what the published function gives on honest trajectories, to the last bit; hybrid questions count as sequential.
- `strict`, the default, gives the same on those and closes its holes: sub-queries count only if they differ and are not blank,
  a search without a new sub-query does not count and costs λs, and hybrid questions are known.

Neither can be paid for what stands in a prompt or an observation: both read the policy's own turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from parallelsearch.reward import terms
from parallelsearch.reward.exact_match import exact_match
from parallelsearch.reward.reading import final_answer, read_as_published, read_strictly
from parallelsearch.reward.terms import RewardWeights
from parallelsearch.rollout.types import Kind, Trajectory


class Preset(StrEnum):
    PAPER = "paper"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class RewardTerms:
    outcome_and_format: float
    decomposition: float
    search_count: float
    repetition: float = 0.0

    @property
    def total(self) -> float:
        return self.outcome_and_format + self.decomposition + self.search_count + self.repetition


@dataclass(frozen=True, slots=True)
class Reward:
    """The value, its terms, and what they were read from."""

    value: float
    terms: RewardTerms
    matched: bool
    well_formed: bool
    decomposed: bool
    searches: int
    repeated_searches: int


RewardFunction = Callable[[Trajectory, Kind, Sequence[str]], Reward]
"""From a trajectory, the question's kind and its gold answers; a training run may name its own by import path."""


def score(
    trajectory: Trajectory,
    kind: Kind,
    golden_answers: Sequence[str],
    *,
    preset: Preset = Preset.STRICT,
    weights: RewardWeights = RewardWeights(),  # noqa: B008  # frozen
) -> Reward:
    """R = outcome and format + decomposition + search count (+ repetition in `strict`); see `terms` for each."""
    reading = read_strictly(trajectory) if preset is Preset.STRICT else read_as_published(trajectory)
    if preset is Preset.PAPER and kind is Kind.HYBRID:
        kind = Kind.SEQUENTIAL
    matched = exact_match(final_answer(trajectory), golden_answers)
    parts = RewardTerms(
        outcome_and_format=terms.outcome_and_format(matched=matched, well_formed=reading.well_formed, weights=weights),
        decomposition=terms.decomposition(kind, decomposed=reading.decomposed, weights=weights),
        search_count=terms.search_count(kind, reading.searches, weights),
        repetition=terms.repetition(reading.repeated_searches, weights),
    )
    return Reward(
        value=parts.total,
        terms=parts,
        matched=matched,
        well_formed=reading.well_formed,
        decomposed=reading.decomposed,
        searches=reading.searches,
        repeated_searches=reading.repeated_searches,
    )
