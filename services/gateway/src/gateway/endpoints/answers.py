"""`POST /v1/answers`, its stream once more from where a reader lost it, and `POST /v1/search`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response

from gateway.dependencies import Answers, LimitedCaller, Settings
from gateway.disconnect import unless_disconnected
from gateway.endpoints.sse import server_sent, stream_response
from gateway.streaming import AnswerStream
from parallelsearch.errors import Gone, InvalidInput
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest, SearchResponse, TrajectoryModel
from servicekit.errors import documented

LastEventId = Annotated[int, Header(ge=0, le=2**31 - 1, description="The id of the last event that was read; 0: from the first.")]
router = APIRouter(prefix="/v1", tags=["answers"])


@router.post("/answers", response_model=TrajectoryModel, responses={200: {"content": {"text/event-stream": {}}}})
async def answer(body: AnswerRequest, request: Request, answers: Answers, settings: Settings, caller: LimitedCaller) -> Response:
    """Answers a question: the whole trajectory, with citations; with `stream` its events as they happen."""
    if body.stream:
        stream = await unless_disconnected(request, answers.stream(body, caller.name, resumable=True).started())
        return stream_response(_written(stream, 0), settings)
    trajectory = await unless_disconnected(request, answers.answer(body, caller.name))
    return Response(trajectory.model_dump_json(), media_type="application/json")


@router.get(
    "/answers/{answer_id}/events",
    response_class=Response,
    responses={
        200: {"description": "The events that follow", "content": {"text/event-stream": {}}},
        204: {"description": "None follows"},
        **documented({404: "No such stream of this key", 410: "Not held any more"}),
    },
)
async def resume(
    answer_id: str, answers: Answers, settings: Settings, caller: LimitedCaller, last_event_id: LastEventId = 0
) -> Response:
    """Goes on with a stream whose reader lost its connection, after the event that it had last."""
    stream = answers.streams.find(answer_id, caller.name)
    if last_event_id > stream.log.last:
        message = f"is ahead of the stream, whose last event is {stream.log.last}"
        raise InvalidInput(f"last-event-id: {message}", extensions={"errors": [{"field": "last-event-id", "message": message}]})
    if not stream.log.holds_after(last_event_id):
        raise Gone("What follows this event is not held any more. Ask again.")
    if stream.log.closed and last_event_id == stream.log.last:
        return Response(status_code=204)
    return stream_response(_written(stream, last_event_id), settings)


async def _written(stream: AnswerStream, after: int) -> AsyncIterator[bytes]:
    async with aclosing(stream.events(after)) as events:
        async for numbered in events:
            yield server_sent(numbered.number, numbered.event.event, numbered.event.model_dump_json())


@router.post("/search", response_model=SearchResponse)
async def search(body: SearchRequest, answers: Answers, _: LimitedCaller) -> Response:
    """Searches all queries at once, through the cache, without a policy."""
    found = await answers.search(body)
    return Response(found.model_dump_json(), media_type="application/json")
