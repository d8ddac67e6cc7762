"""Between the trajectory inside (`rollout.types`) and on the wire (`schemas.answers`)."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

from pydantic import BaseModel

from parallelsearch.rollout.types import (
    Action,
    Answer,
    Malformed,
    Passage,
    PolicyIdentity,
    Search,
    SubQueryResult,
    Timings,
    Trajectory,
    Turn,
    TurnTimings,
    Usage,
)
from parallelsearch.schemas import answers as wire
from parallelsearch.schemas.retrieval import PassageModel

M = TypeVar("M", bound=BaseModel)


def passage_to_wire(passage: Passage) -> PassageModel:
    return PassageModel(
        id=passage.id,
        title=passage.title,
        text=passage.text,
        score=passage.score,
        url=passage.url,
        metadata=dict(passage.metadata),
    )


def passage_from_wire(model: PassageModel) -> Passage:
    return Passage(model.id, model.title, model.text, model.score, model.url, model.metadata)


def trajectory_to_wire(trajectory: Trajectory, citations: list[wire.Citation] | None = None) -> wire.TrajectoryModel:
    return wire.TrajectoryModel(
        id=trajectory.id,
        question=trajectory.question,
        mode=trajectory.mode,
        answer=trajectory.answer,
        stop_reason=trajectory.stop_reason,
        turns=[_turn_to_wire(turn) for turn in trajectory.turns],
        usage=_fields_to(wire.UsageModel, trajectory.usage),
        timings=_fields_to(wire.TimingsModel, trajectory.timings),
        policy=wire.PolicyModel(
            model=trajectory.policy.model, version=trajectory.policy.version, versions=list(trajectory.policy_versions)
        ),
        index=wire.IndexReference(fingerprint=trajectory.index_fingerprint),
        detail=trajectory.detail,
        citations=citations or [],
    )


def _fields_to(kind: type[M], given: Usage | Timings) -> M:
    """The model with the same fields; what `dataclasses.asdict` does besides takes longer than all the rest of a trajectory."""
    return kind(**{field.name: getattr(given, field.name) for field in fields(given)})


def _turn_to_wire(turn: Turn) -> wire.TurnModel:
    return wire.TurnModel(
        index=turn.index,
        reasoning=turn.reasoning,
        action=_action_to_wire(turn.action),
        observation=[result_to_wire(result) for result in turn.observation],
        text=turn.text,
        repeated=turn.repeated,
        timings=wire.TurnTimingsModel(policy_ms=turn.timings.policy_ms, search_ms=turn.timings.search_ms),
    )


def result_to_wire(result: SubQueryResult) -> wire.ObservationModel:
    return wire.ObservationModel(
        query=result.query,
        passages=[passage_to_wire(passage) for passage in result.passages],
        cached=result.cached,
        failed=result.failed,
        latency_ms=result.latency_ms,
    )


def _action_to_wire(action: Action) -> wire.ActionModel:
    match action:
        case Search(queries, dropped, raw_queries):
            return wire.SearchActionModel(queries=list(queries), dropped=dropped, raw_queries=list(raw_queries))
        case Answer(text, opened):
            return wire.AnswerActionModel(text=text, opened=opened)
        case Malformed(reason):
            return wire.MalformedActionModel(reason=reason)


def _action_from_wire(model: wire.ActionModel) -> Action:
    match model:
        case wire.SearchActionModel():
            return Search(tuple(model.queries), model.dropped, tuple(model.raw_queries or model.queries))
        case wire.AnswerActionModel():
            return Answer(model.text, model.opened)
        case wire.MalformedActionModel():
            return Malformed(model.reason)


def _result_from_wire(model: wire.ObservationModel) -> SubQueryResult:
    passages = tuple(passage_from_wire(passage) for passage in model.passages)
    return SubQueryResult(model.query, passages, model.cached, model.failed, model.latency_ms)


def _turn_from_wire(model: wire.TurnModel) -> Turn:
    return Turn(
        index=model.index,
        text=model.text,
        reasoning=model.reasoning,
        action=_action_from_wire(model.action),
        observation=tuple(_result_from_wire(result) for result in model.observation),
        repeated=model.repeated,
        timings=TurnTimings(**model.timings.model_dump()),
    )


def trajectory_from_wire(model: wire.TrajectoryModel) -> Trajectory:
    return Trajectory(
        id=model.id,
        question=model.question,
        mode=model.mode,
        answer=model.answer,
        stop_reason=model.stop_reason,
        turns=tuple(_turn_from_wire(turn) for turn in model.turns),
        usage=Usage(**model.usage.model_dump()),
        timings=Timings(**model.timings.model_dump()),
        policy=PolicyIdentity(model.policy.model, model.policy.version),
        policy_versions=tuple(model.policy.versions),
        index_fingerprint=model.index.fingerprint,
        detail=model.detail,
    )
