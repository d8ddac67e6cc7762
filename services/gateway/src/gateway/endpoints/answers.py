"""`POST /v1/answers` and `POST /v1/search`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gateway.dependencies import Answers
from gateway.disconnect import unless_disconnected
from parallelsearch.errors import InvalidInput
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest, SearchResponse, TrajectoryModel

router = APIRouter(prefix="/v1", tags=["answers"])


@router.post("/answers", response_model=TrajectoryModel)
async def answer(body: AnswerRequest, request: Request, answers: Answers) -> Response:
    """Answers a question: the whole trajectory, with citations."""
    if body.stream:
        raise InvalidInput("stream: streaming is not served by this version; leave it out or set it to false")
    trajectory = await unless_disconnected(request, answers.answer(body))
    return Response(trajectory.model_dump_json(), media_type="application/json")


@router.post("/search", response_model=SearchResponse)
async def search(body: SearchRequest, answers: Answers) -> Response:
    """Searches all queries at once, through the cache, without a policy."""
    found = await answers.search(body)
    return Response(found.model_dump_json(), media_type="application/json")
