"""`GET /v1/answers/{id}` and `GET /v1/answers`: stored trajectories, for the key that asked for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from gateway.dependencies import LimitedCaller
from gateway.store import TrajectoryStore
from parallelsearch.errors import NotFound
from parallelsearch.schemas.answers import TrajectoryModel

router = APIRouter(prefix="/v1/answers", tags=["answers"])
JSON_LINES = "application/x-ndjson"


@router.get("/{answer_id}", response_model=TrajectoryModel)
async def stored(answer_id: str, request: Request, caller: LimitedCaller) -> Response:
    """A stored trajectory."""
    body = await _store(request).get(caller.name, answer_id)
    if body is None:
        raise NotFound(f"There is no stored answer {answer_id[:64]} of yours. Answers are kept for a time only.")
    return Response(body, media_type="application/json")


@router.get("", responses={200: {"content": {JSON_LINES: {}}}}, response_class=StreamingResponse)
async def export(request: Request, caller: LimitedCaller, since: Annotated[float, Query(ge=0, le=1e11)] = 0.0) -> StreamingResponse:
    """All stored trajectories of the caller, one JSON a line, oldest first; `since` in Unix seconds."""
    lines = _store(request).export(caller.name, since=since)
    # A store that cannot be read says so before the answer begins.
    first = await anext(lines, b"")
    return StreamingResponse(_together(first, lines), media_type=JSON_LINES)


async def _together(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in rest:
        yield line


def _store(request: Request) -> TrajectoryStore:
    store: TrajectoryStore | None = request.state.store
    if store is None:
        raise NotFound("Answers are not stored here: set GATEWAY_STORE_PATH to keep them.")
    return store
