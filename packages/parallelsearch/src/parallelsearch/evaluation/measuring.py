"""Measures one trajectory against its question: a row of numbers, so that a report never holds trajectories in memory."""

from __future__ import annotations

from dataclasses import dataclass

from parallelsearch.evaluation.decomposition import Decomposition, read_decomposition
from parallelsearch.evaluation.evidence import Evidence, read_evidence
from parallelsearch.evaluation.questions import Question
from parallelsearch.reward.exact_match import cover_match, exact_match, f1
from parallelsearch.reward.scoring import Reward, score
from parallelsearch.rollout.types import Malformed, Search, StopReason, Timings, Trajectory, Usage


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is kept of a trajectory. The answer is what the rollout ended with; a failed rollout has none and is wrong."""

    question: Question
    stop_reason: StopReason
    answered_by: tuple[str, str, str]
    """Model, version, index fingerprint."""
    exact_match: bool
    f1: float
    cover_match: bool
    opened: bool
    """The environment had to open the answer."""
    usage: Usage
    timings: Timings
    turns: int
    malformed_turns: int
    repeated_turns: int
    dropped_sub_queries: int
    failed_sub_queries: int
    evidence: Evidence
    decomposition: Decomposition
    reward: Reward


def measure(question: Question, trajectory: Trajectory) -> Measurement:
    actions = [turn.action for turn in trajectory.turns]
    results = [result for turn in trajectory.turns for result in turn.observation]
    golds = question.golden_answers
    return Measurement(
        question=question,
        stop_reason=trajectory.stop_reason,
        answered_by=(trajectory.policy.model, trajectory.policy.version, trajectory.index_fingerprint),
        exact_match=exact_match(trajectory.answer, golds),
        f1=f1(trajectory.answer, golds),
        cover_match=cover_match(trajectory.answer, golds),
        opened=bool(actions) and getattr(actions[-1], "opened", False),
        usage=trajectory.usage,
        timings=trajectory.timings,
        turns=len(actions),
        malformed_turns=sum(isinstance(action, Malformed) for action in actions),
        repeated_turns=sum(turn.repeated for turn in trajectory.turns),
        dropped_sub_queries=sum(action.dropped for action in actions if isinstance(action, Search)),
        failed_sub_queries=sum(result.failed for result in results),
        evidence=read_evidence(question, trajectory),
        decomposition=read_decomposition(question, trajectory),
        reward=score(trajectory, question.kind, golds),
    )
