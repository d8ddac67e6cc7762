"""A step's metrics out of the records of its rollouts: means over all of them, and over each kind as `name/kind`.

| name | mean over rollouts of |
|---|---|
| reward, reward_outcome_and_format, reward_decomposition, reward_search_count, reward_repetition | the reward and its terms |
| exact_match, format_violations, excluded | shares |
| decomposed | the share whose first search has at least two sub-queries |
| searches, repeated_searches, turns, sub_queries, malformed_turns, response_tokens | counts |
| wrong_with_evidence | the share answered wrongly although a gold answer, other than yes or no, stood in an observation |
| search_share | search time over the time of the rollout |

`uniform_groups` is the share of groups of at least two rollouts that were all worth the same: what compares within a group learns
nothing from them. Excluded rollouts count in `excluded` alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from parallelsearch.schemas.training import StepMetrics
from trainer.records import RolloutRecord

METRICS: dict[str, Callable[[RolloutRecord], float]] = {
    "reward": lambda record: record.reward,
    "reward_outcome_and_format": lambda record: record.outcome_and_format,
    "reward_decomposition": lambda record: record.decomposition,
    "reward_search_count": lambda record: record.search_count,
    "reward_repetition": lambda record: record.repetition,
    "exact_match": lambda record: record.matched,
    "format_violations": lambda record: not record.well_formed,
    "decomposed": lambda record: record.decomposed,
    "searches": lambda record: record.searches,
    "repeated_searches": lambda record: record.repeated_searches,
    "turns": lambda record: record.turns,
    "sub_queries": lambda record: record.sub_queries,
    "malformed_turns": lambda record: record.malformed,
    "response_tokens": lambda record: record.policy_tokens,
    "wrong_with_evidence": lambda record: record.evidence_observed and not record.matched,
    "search_share": lambda record: record.search_ms / max(record.total_ms, 1e-9),
}


def by_time(records: Iterable[RolloutRecord]) -> list[RolloutRecord]:
    """A step's rollouts all end before those of the next begin, so the order in time tells them apart."""
    return sorted(records, key=lambda record: record.time)


def steps_of(records: Iterable[RolloutRecord], rollouts_per_step: int) -> list[StepMetrics]:
    """Whole steps only, of the rollouts that are learnt from."""
    ordered = by_time(record for record in records if record.split == "train")
    whole = range(0, len(ordered) - rollouts_per_step + 1, rollouts_per_step)
    chunks = (ordered[start : start + rollouts_per_step] for start in whole)
    return [StepMetrics(step=step, values=dict(_values(chunk))) for step, chunk in enumerate(chunks, start=1)]


def _values(records: Sequence[RolloutRecord]) -> Iterator[tuple[str, float]]:
    yield "excluded", fmean(record.excluded for record in records)
    counted = [record for record in records if not record.excluded]
    yield from _means(counted, "")
    for kind in sorted({record.kind for record in counted}):
        yield from _means([record for record in counted if record.kind is kind], f"/{kind}")


def _means(records: Sequence[RolloutRecord], suffix: str) -> Iterator[tuple[str, float]]:
    if records:
        for name, value in METRICS.items():
            yield f"{name}{suffix}", fmean(value(record) for record in records)
    groups: dict[object, list[float]] = defaultdict(list)
    for record in records:
        groups[record.id, record.draw].append(record.learnt_reward)
    uniform = [len(set(rewards)) == 1 for rewards in groups.values() if len(rewards) > 1]
    if uniform:
        yield f"uniform_groups{suffix}", fmean(uniform)
