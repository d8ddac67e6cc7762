"""What a run's rollouts leave on disk: a line of facts for each, and every few a whole trajectory. One pair of files per worker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import ValidationError

from parallelsearch.rollout.types import Kind, StopReason
from parallelsearch.schemas.answers import ScoredTrajectoryModel
from parallelsearch.schemas.base import WireModel
from parallelsearch.schemas.trajectories import trajectory_to_wire
from trainer.episode import Outcome, count_malformed
from trainer.labels import Split
from trainer.tail import Tail

FOLDER = "rollouts"
SAMPLE_EVERY = 32


class RolloutRecord(WireModel):
    """The facts of one rollout; `learnt_reward` is what the update saw."""

    time: float
    id: str
    draw: int | None = None
    kind: Kind
    split: Split
    stop_reason: StopReason
    reward: float
    learnt_reward: float
    outcome_and_format: float
    decomposition: float
    search_count: float
    repetition: float
    matched: bool
    well_formed: bool
    decomposed: bool
    searches: int
    repeated_searches: int
    turns: int
    malformed: int
    sub_queries: int
    policy_tokens: int
    evidence_observed: bool
    excluded: bool
    search_ms: float
    total_ms: float


def record_of(outcome: Outcome, learnt_reward: float) -> RolloutRecord:
    trajectory, reward = outcome.trajectory, outcome.reward
    return RolloutRecord(
        time=time.time(),
        id=outcome.label.id,
        draw=outcome.label.draw,
        kind=outcome.label.kind,
        split=outcome.label.split,
        stop_reason=trajectory.stop_reason,
        reward=reward.value,
        learnt_reward=learnt_reward,
        outcome_and_format=reward.terms.outcome_and_format,
        decomposition=reward.terms.decomposition,
        search_count=reward.terms.search_count,
        repetition=reward.terms.repetition,
        matched=reward.matched,
        well_formed=reward.well_formed,
        decomposed=reward.decomposed,
        searches=reward.searches,
        repeated_searches=reward.repeated_searches,
        turns=len(trajectory.turns),
        malformed=count_malformed(trajectory),
        sub_queries=trajectory.usage.sub_queries,
        policy_tokens=outcome.policy_tokens,
        evidence_observed=outcome.evidence_observed,
        excluded=outcome.excluded,
        search_ms=trajectory.timings.search_ms,
        total_ms=trajectory.timings.total_ms,
    )


class Recorder:
    """Appends to this process's files below the run's folder."""

    def __init__(self, run_folder: Path, sample_every: int = SAMPLE_EVERY) -> None:
        folder = run_folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{os.uname().nodename}-{os.getpid()}"
        self._facts, self._samples = folder / f"facts-{name}.jsonl", folder / f"samples-{name}.jsonl"
        self._sample_every = sample_every
        self._count = 0

    def write(self, outcome: Outcome, learnt_reward: float) -> None:
        _append(self._facts, record_of(outcome, learnt_reward).model_dump(mode="json"))
        if self._count % self._sample_every == 0:
            _append(self._samples, _sample(outcome).model_dump(mode="json"))
        self._count += 1


def _sample(outcome: Outcome) -> ScoredTrajectoryModel:
    fields = trajectory_to_wire(outcome.trajectory).model_dump()
    return ScoredTrajectoryModel(**fields, kind=outcome.label.kind, golden_answers=outcome.label.golden_answers)


def _append(path: Path, row: dict[str, object]) -> None:
    with path.open("ab") as file:
        file.write(orjson.dumps(row) + b"\n")


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The records of a run, as far as they are written."""

    run_folder: Path

    def new_facts(self, read: dict[Path, Tail]) -> list[RolloutRecord]:
        """Those that were not there yet when `read`, which is kept between calls, was last given; in no order. A line that is still
        being written waits."""
        for path in self._files("facts"):
            read.setdefault(path, Tail(path))
        return list(_parsed(line for tail in read.values() for line in tail.lines()))

    def _files(self, kind: str) -> list[Path]:
        return sorted((self.run_folder / FOLDER).glob(f"{kind}-*.jsonl"))


def _parsed(lines: Iterable[bytes]) -> Iterator[RolloutRecord]:
    for line in lines:
        try:
            yield RolloutRecord.model_validate_json(line)
        except ValidationError:
            continue
