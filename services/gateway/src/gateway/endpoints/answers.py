"""`POST /v1/answers`, its stream once more from where a reader lost it, and `POST /v1/search`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import Response

from gateway.dependencies import BEARER, Answers, KnownCaller, Settings, admitted, state_of
from gateway.disconnect import unless_disconnected
from gateway.endpoints.sse import server_sent, stream_response
from gateway.streaming import AnswerStream
from parallelsearch.errors import Gone, InvalidInput
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest, SearchResponse, TrajectoryModel
from servicekit.bodies import body_schema, read_body
from servicekit.errors import documented
from servicekit.routes import DirectRoute, until_answered

LastEventId = Annotated[int, Header(ge=0, le=2**31 - 1, description="The id of the last event that was read; 0: from the first.")]
router = APIRouter(prefix="/v1", tags=["answers"])
direct = APIRouter(prefix="/v1", tags=["answers"], route_class=DirectRoute, dependencies=[Depends(BEARER)])
"""What answers are waited for; its dependencies are for the document alone."""
INVALID = documented({422: "The request is wrong; `errors` names each field."})


@direct.post(
    "/answers",
    response_model=TrajectoryModel,
    responses={200: {"content": {"text/event-stream": {}}}, **INVALID},
    openapi_extra=body_schema(AnswerRequest),
)
async def answer(request: Request) -> Response:
    """Answers a question: the whole trajectory, with citations; with `stream` its events as they happen."""
    sent, state = until_answered(request), state_of(request)
    place = await sent.enter_async_context(AsyncExitStack())
    caller = await admitted(request, place)
    body = await read_body(request, AnswerRequest, declared=True)
    answers = state["answers"]
    if body.stream:
        stream = await unless_disconnected(request, answers.stream(body, caller.name, resumable=True).started())
        sent.push_async_callback(stream.take_over, place.pop_all())
        return stream_response(_written(stream, 0), stream, state["settings"])
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
    answer_id: str, request: Request, answers: Answers, settings: Settings, caller: KnownCaller, last_event_id: LastEventId = 0
) -> Response:
    """Goes on with a stream whose reader lost its connection, after the event that it had last."""
    limiter, sent = state_of(request)["limiter"], until_answered(request)
    await sent.enter_async_context(limiter.one_request(replace(caller, concurrent=None)))
    stream = answers.streams.find(answer_id, caller.name)
    if last_event_id > stream.log.last:
        raise InvalidInput(f"last-event-id: is ahead of the stream, whose last event is {stream.log.last}")
    if not stream.log.holds_after(last_event_id):
        raise Gone("What follows this event is not held any more. Ask again.")
    if stream.log.closed and last_event_id == stream.log.last:
        return Response(status_code=204)
    place = stream.give_place()
    if place is None:
        place = AsyncExitStack()
        await place.enter_async_context(limiter.one_request(replace(caller, requests_per_minute=None)))
    sent.push_async_callback(stream.take_over, place)
    return stream_response(_written(stream, last_event_id), stream, settings)


async def _written(stream: AnswerStream, after: int) -> AsyncIterator[bytes]:
    async with aclosing(stream.events(after)) as events:
        async for numbered in events:
            yield server_sent(numbered.number, numbered.event.event, numbered.event.model_dump_json())


@direct.post("/search", response_model=SearchResponse, responses=INVALID, openapi_extra=body_schema(SearchRequest))
async def search(request: Request) -> Response:
    """Searches all queries at once, through the cache, without a policy."""
    await admitted(request)
    body = await read_body(request, SearchRequest, declared=True)
    found = await unless_disconnected(request, state_of(request)["answers"].search(body))
    return Response(found.model_dump_json(), media_type="application/json")
