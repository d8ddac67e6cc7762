"""The metrics: each a ratio of two sums over measurements, with its definition and source, which reports and docs print.

A mean is a ratio whose denominator is 1. Measurements for which a metric is not defined (no label, nothing to decide by)
count in neither sum, and a report says over how many it was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from parallelsearch.evaluation.measuring import Measurement

Number = float | None
SQUAD = "SQuAD's evaluation script (Rajpurkar et al. 2016), as in the paper"
OURS = "ours"
STRICT = "docs/protocol.md; ParallelSearch, arXiv 2508.09303"


class Unit(StrEnum):
    SHARE = "share"
    COUNT = "count"
    MILLISECONDS = "ms"
    VALUE = "value"


class Better(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Metric:
    """`numerator` and `denominator` give None where the measurement does not count."""

    name: str
    title: str
    unit: Unit
    better: Better
    definition: str
    source: str
    numerator: Callable[[Measurement], Number]
    denominator: Callable[[Measurement], Number] = lambda _: 1.0


def _if(condition: bool | None, value: Callable[[], Number]) -> Number:
    return value() if condition else None


def _needed(m: Measurement) -> bool:
    return bool(m.decomposition.needed)


def _labelled(m: Measurement) -> bool:
    return m.decomposition.needed is not None


def _hit(m: Measurement) -> float:
    return float(m.decomposition.decomposed and _needed(m))


def _excess(m: Measurement) -> Number:
    gold = m.decomposition.gold_sub_queries
    return None if gold is None else float(m.decomposition.sub_queries - gold)


def _flag(value: bool | None) -> Number:
    return None if value is None else float(value)


QUALITY = (
    Metric("exact_match", "Exact match", Unit.SHARE, Better.HIGHER, "The normalised answer equals a normalised gold answer.", SQUAD,
           lambda m: float(m.exact_match)),
    Metric("f1", "F1", Unit.SHARE, Better.HIGHER, "Best token F1 over the gold answers; verdicts count only whole.", SQUAD,
           lambda m: m.f1),
    Metric("cover_match", "Cover match", Unit.SHARE, Better.HIGHER,
           "A normalised gold answer stands, word for word, in the normalised answer.", "SubEM of Search-R1's and FlashRAG's code",
           lambda m: float(m.cover_match)),
    Metric("answered", "Answered", Unit.SHARE, Better.HIGHER, "The rollout ended with an answer of the policy's own accord.", OURS,
           lambda m: float(m.stop_reason.value == "answered" and not m.opened)),
)  # fmt: skip
EFFORT = (
    Metric("llm_calls", "LLM calls", Unit.COUNT, Better.LOWER, "Generations of the policy per question (the paper's turns).",
           "ParallelSearch, table 3 and figure 3", lambda m: float(m.usage.llm_calls)),
    Metric("search_rounds", "Search rounds", Unit.COUNT, Better.NEITHER, "Turns that searched.", OURS,
           lambda m: float(m.usage.search_rounds)),
    Metric("sub_queries", "Sub-queries", Unit.COUNT, Better.NEITHER, "Sub-queries that were searched, all rounds together.", OURS,
           lambda m: float(m.usage.sub_queries)),
    Metric("prompt_tokens", "Prompt tokens", Unit.COUNT, Better.LOWER, "Tokens read by the policy, summed over its calls.", OURS,
           lambda m: float(m.usage.prompt_tokens)),
    Metric("completion_tokens", "Completion tokens", Unit.COUNT, Better.LOWER, "Tokens written by the policy.", OURS,
           lambda m: float(m.usage.completion_tokens)),
    Metric("total_ms", "Wall clock", Unit.MILLISECONDS, Better.LOWER, "From question to answer, at the report's concurrency.", OURS,
           lambda m: m.timings.total_ms),
    Metric("search_ms", "Search time", Unit.MILLISECONDS, Better.LOWER, "Of it, waiting for searches.", OURS,
           lambda m: m.timings.search_ms),
    Metric("overhead_ms", "Own time", Unit.MILLISECONDS, Better.LOWER, "Of it, neither policy nor search.", OURS,
           lambda m: m.timings.overhead_ms),
)  # fmt: skip
COST = (
    Metric("calls_per_correct", "LLM calls per correct answer", Unit.COUNT, Better.LOWER,
           "All LLM calls over the number of exact matches.", OURS,
           lambda m: float(m.usage.llm_calls), lambda m: float(m.exact_match)),
    Metric("tokens_per_correct", "Tokens per correct answer", Unit.COUNT, Better.LOWER,
           "All prompt and completion tokens over the number of exact matches.", OURS,
           lambda m: float(m.usage.prompt_tokens + m.usage.completion_tokens), lambda m: float(m.exact_match)),
    Metric("ms_per_correct", "Wall clock per correct answer", Unit.MILLISECONDS, Better.LOWER,
           "All wall clock over the number of exact matches.", OURS,
           lambda m: m.timings.total_ms, lambda m: float(m.exact_match)),
)  # fmt: skip
EVIDENCE = (
    Metric("title_recall", "Evidence recall", Unit.SHARE, Better.HIGHER, "Share of the gold titles among the retrieved passages.",
           "supporting facts of HotpotQA (Yang et al. 2018)", lambda m: m.evidence.title_recall),
    Metric("answer_recall", "Answer recall", Unit.SHARE, Better.HIGHER,
           "A gold answer stands in a retrieved passage; not for yes and no.", "DPR (Karpukhin et al. 2020)",
           lambda m: _flag(m.evidence.answer_found)),
    Metric("evidence_found", "Evidence found", Unit.SHARE, Better.HIGHER,
           "All gold titles were retrieved; where there are none, a gold answer was.", OURS, lambda m: _flag(m.evidence.found)),
    Metric("wrong_although_evidence", "Wrong although evidence", Unit.SHARE, Better.LOWER,
           "Of the questions whose evidence was found, those answered wrong.", "ParallelSearch, failure analysis",
           lambda m: _if(m.evidence.found, lambda: float(not m.exact_match))),
    Metric("right_without_evidence", "Right without evidence", Unit.SHARE, Better.NEITHER,
           "Of the questions whose evidence was not found, those answered right.", OURS,
           lambda m: _if(m.evidence.found is False, lambda: float(m.exact_match))),
)  # fmt: skip
DECOMPOSITION = (
    Metric("decomposed", "Decomposed", Unit.SHARE, Better.NEITHER, "The first search holds at least two distinct sub-queries.",
           STRICT, lambda m: float(m.decomposition.decomposed)),
    Metric("decomposition_accuracy", "Decomposition accuracy", Unit.SHARE, Better.HIGHER,
           "Decomposed where the label asks for it, not where it does not.", OURS,
           lambda m: _if(_labelled(m), lambda: float(m.decomposition.decomposed == m.decomposition.needed))),
    Metric("decomposition_precision", "Decomposition precision", Unit.SHARE, Better.HIGHER,
           "Of the labelled questions that were decomposed, those that needed it.", OURS,
           lambda m: _if(_labelled(m), lambda: _hit(m)), lambda m: _if(_labelled(m), lambda: float(m.decomposition.decomposed))),
    Metric("decomposition_recall", "Decomposition recall", Unit.SHARE, Better.HIGHER,
           "Of the labelled questions that needed it, those that were decomposed.", OURS,
           lambda m: _if(_labelled(m), lambda: _hit(m)), lambda m: _if(_labelled(m), lambda: float(_needed(m)))),
    Metric("width_right", "Width right", Unit.SHARE, Better.HIGHER,
           "The first search has as many sub-queries as the graph has sub-questions that depend on nothing.", OURS,
           lambda m: _flag(m.decomposition.width_right)),
    Metric("depth_right", "Depth right", Unit.SHARE, Better.HIGHER, "As many rounds as the graph is deep.", OURS,
           lambda m: _flag(m.decomposition.depth_right)),
    Metric("shape_right", "Shape right", Unit.SHARE, Better.HIGHER, "Width, depth and number of sub-queries are the graph's.", OURS,
           lambda m: _flag(m.decomposition.shape_right)),
    Metric("sub_query_excess", "Sub-queries beyond gold", Unit.COUNT, Better.NEITHER,
           "Distinct sub-queries less the graph's sub-questions.", OURS, _excess),
)  # fmt: skip
PROTOCOL = (
    Metric("well_formed", "Well formed", Unit.SHARE, Better.HIGHER, "Think, then search or answer, and nothing between.", STRICT,
           lambda m: float(m.reward.well_formed)),
    Metric("malformed", "Malformed turns", Unit.SHARE, Better.LOWER, "Of all turns, those that without search or answer.", OURS,
           lambda m: float(m.malformed_turns), lambda m: float(m.turns)),
    Metric("repeated", "Repeating turns", Unit.SHARE, Better.LOWER, "Of all turns, those that only repeated sub-queries.", OURS,
           lambda m: float(m.repeated_turns), lambda m: float(m.turns)),
    Metric("dropped", "Dropped sub-queries", Unit.COUNT, Better.NEITHER, "Sub-queries over the mode's limit, per question.", OURS,
           lambda m: float(m.dropped_sub_queries)),
    Metric("failed", "Failed sub-queries", Unit.COUNT, Better.LOWER, "Sub-queries whose retrieval failed, per question.", OURS,
           lambda m: float(m.failed_sub_queries)),
)  # fmt: skip
REWARD = (
    Metric("reward", "Reward", Unit.VALUE, Better.HIGHER, "Of the preset strict.", STRICT, lambda m: m.reward.value),
    Metric("reward_outcome", "– outcome and format", Unit.VALUE, Better.HIGHER, "Its first term.", STRICT,
           lambda m: m.reward.terms.outcome_and_format),
    Metric("reward_decomposition", "– decomposition", Unit.VALUE, Better.HIGHER, "Its second term.", STRICT,
           lambda m: m.reward.terms.decomposition),
    Metric("reward_search_count", "– search count", Unit.VALUE, Better.HIGHER, "Its third term.", STRICT,
           lambda m: m.reward.terms.search_count),
    Metric("reward_repetition", "– repetition", Unit.VALUE, Better.HIGHER, "What repeated searches cost.", STRICT,
           lambda m: m.reward.terms.repetition),
)  # fmt: skip
METRICS = (*QUALITY, *EFFORT, *COST, *EVIDENCE, *DECOMPOSITION, *PROTOCOL, *REWARD)
BY_NAME = {metric.name: metric for metric in METRICS}
QUANTILES = {"p50": 0.5, "p95": 0.95}
"""Of the wall clock."""
