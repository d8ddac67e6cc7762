"""What `POST /v1/answers` sends with `stream: true`: one class per event, told apart by `event`.

On the wire `event` stands twice: as the name of the server-sent event and in its data. In order: for each turn `turn.started`,
`reasoning.delta`s, then either `search.started` and one `search.result` per sub-query, or `answer.delta`s; at the end one
`done` or one `error`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from parallelsearch.schemas.answers import ObservationModel, TrajectoryModel
from parallelsearch.schemas.base import WireModel


class TurnStarted(WireModel):
    """A generation begins."""

    event: Literal["turn.started"] = "turn.started"
    id: str = Field(description="The answer's id, the same in all events that carry one.")
    turn: int


class ReasoningDelta(WireModel):
    """More of the turn's reasoning. All of a turn joined are the reasoning of that turn in `done`."""

    event: Literal["reasoning.delta"] = "reasoning.delta"
    turn: int
    text: str


class SearchStarted(WireModel):
    """All sub-queries of the turn go out at once; `dropped` were over the limit."""

    event: Literal["search.started"] = "search.started"
    turn: int
    queries: list[str]
    dropped: int = 0


class SearchResultLanded(ObservationModel):
    """One sub-query has its result; `index` is its place in `queries`. They come as they land, in any order."""

    event: Literal["search.result"] = "search.result"
    turn: int
    index: int


class AnswerDelta(WireModel):
    """More of the answer. Provisional until `done`: drop what came for a turn that is followed by another turn."""

    event: Literal["answer.delta"] = "answer.delta"
    turn: int
    text: str


class Done(TrajectoryModel):
    """The whole trajectory, as the answer without streaming would be."""

    event: Literal["done"] = "done"


class Failed(WireModel):
    """A problem (RFC 9457) instead of `done`; `trajectory` and `stop_reason` say how far it came."""

    model_config = ConfigDict(extra="allow", frozen=True)

    event: Literal["error"] = "error"
    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
    stop_reason: str | None = None
    trajectory: dict[str, Any] | None = None


Event = Annotated[
    TurnStarted | ReasoningDelta | SearchStarted | SearchResultLanded | AnswerDelta | Done | Failed, Field(discriminator="event")
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
