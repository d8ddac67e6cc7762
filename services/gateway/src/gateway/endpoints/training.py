"""`/v1/training-runs/**`: the trainer's API, forwarded with the caller's token; logs pass through as they come."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from gateway.dependencies import KnownCaller
from gateway.endpoints.forwarding import forward, leads_elsewhere
from parallelsearch.errors import NotFound

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

router = APIRouter(prefix="/v1/training-runs", tags=["training runs"], include_in_schema=False)


@router.api_route("", methods=METHODS)
@router.api_route("/{path:path}", methods=METHODS)
async def training_runs(request: Request, _: KnownCaller, path: str = "") -> StreamingResponse:
    """What the trainer answers. Whether the token may write is the trainer's to say."""
    if leads_elsewhere(path):
        raise NotFound("There is no such training run.")
    return await forward(request, request.state.trainer, "trainer", "/v1/training-runs" + (f"/{quote(path)}" if path else ""))
