"""Between the trajectory inside (`rollout.types`) and on the wire (`schemas.answers`)."""

from __future__ import annotations

from dataclasses import asdict

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

ACTION_TYPES = {Search: "search", Answer: "answer", Malformed: "malformed"}


def passage_to_wire(passage: Passage) -> PassageModel:
    return PassageModel(id=passage.id, title=passage.title, text=passage.text, score=passage.score, url=passage.url)


def passage_from_wire(model: PassageModel) -> Passage:
    return Passage(id=model.id, title=model.title, text=model.text, score=model.score, url=model.url)


def trajectory_to_wire(trajectory: Trajectory, citations: list[wire.Citation] | None = None) -> wire.TrajectoryModel:
    fields = asdict(trajectory)
    fields["index"] = {"fingerprint": fields.pop("index_fingerprint")}
    for turn, model in zip(trajectory.turns, fields["turns"], strict=True):
        model["action"]["type"] = ACTION_TYPES[type(turn.action)]
    return wire.TrajectoryModel.model_validate({**fields, "citations": citations or []})


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
        policy=PolicyIdentity(**model.policy.model_dump()),
        index_fingerprint=model.index.fingerprint,
        detail=model.detail,
    )
