"""`POST /v1/answers` and `POST /v1/search`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gateway.dependencies import Answers, LimitedCaller, Settings
from gateway.disconnect import unless_disconnected
from gateway.endpoints.sse import server_sent, stream_response
from gateway.streaming import AnswerStream
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest, SearchResponse, TrajectoryModel

router = APIRouter(prefix="/v1", tags=["answers"])


@router.post("/answers", response_model=TrajectoryModel, responses={200: {"content": {"text/event-stream": {}}}})
async def answer(body: AnswerRequest, request: Request, answers: Answers, settings: Settings, caller: LimitedCaller) -> Response:
    """Answers a question: the whole trajectory, with citations; with `stream` its events as they happen."""
    if body.stream:
        stream = await unless_disconnected(request, answers.stream(body, caller.name).started())
        return stream_response(_written(stream), settings)
    trajectory = await unless_disconnected(request, answers.answer(body, caller.name))
    return Response(trajectory.model_dump_json(), media_type="application/json")


async def _written(stream: AnswerStream) -> AsyncIterator[bytes]:
    async with aclosing(stream.events()) as events:
        async for event in events:
            yield server_sent(event.event, event.model_dump_json())


@router.post("/search", response_model=SearchResponse)
async def search(body: SearchRequest, answers: Answers, _: LimitedCaller) -> Response:
    """Searches all queries at once, through the cache, without a policy."""
    found = await answers.search(body)
    return Response(found.model_dump_json(), media_type="application/json")
