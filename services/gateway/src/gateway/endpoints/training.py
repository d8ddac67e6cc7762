"""`/v1/training-runs/**`: the trainer's API, forwarded with the caller's token; logs pass through as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx2
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from gateway.dependencies import KnownCaller
from parallelsearch.clients.http import named
from parallelsearch.errors import NotFound
from servicekit.request_id import request_id

NAME = "trainer"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
ASKED = ("authorization", "content-type", "accept", "idempotency-key", "last-event-id", "traceparent")
ANSWERED = ("content-type", "content-length", "content-encoding", "location", "retry-after", "cache-control", "www-authenticate")

router = APIRouter(prefix="/v1/training-runs", tags=["training runs"], include_in_schema=False)


@router.api_route("", methods=METHODS)
@router.api_route("/{path:path}", methods=METHODS)
async def forward(request: Request, _: KnownCaller, path: str = "") -> StreamingResponse:
    """What the trainer answers. Whether the token may write is the trainer's to say."""
    if any(part in {".", ".."} for part in path.split("/")):
        raise NotFound("There is no such training run.")
    trainer: httpx2.AsyncClient = request.state.trainer
    url = httpx2.URL("/v1/training-runs" + (f"/{quote(path)}" if path else ""), query=request.url.query.encode())
    headers = {name: request.headers[name] for name in ASKED if name in request.headers}
    headers |= {"x-request-id": request_id(), "accept-encoding": request.headers.get("accept-encoding", "identity")}
    content = await request.body()
    async with named(NAME):
        response = await trainer.send(trainer.build_request(request.method, url, headers=headers, content=content), stream=True)
    kept = {name: response.headers[name] for name in ANSWERED if name in response.headers}
    return StreamingResponse(_passed_on(response), response.status_code, kept)


async def _passed_on(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_raw():
            yield piece
    finally:
        await response.aclose()
