"""`/v1/indexes/**`: the retriever's indexes and their documents, forwarded with the caller's token."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from gateway.dependencies import KnownCaller
from gateway.endpoints.forwarding import forward, leads_elsewhere
from parallelsearch.errors import NotFound

PREFIX = "/v1/indexes"

router = APIRouter(prefix=PREFIX, tags=["indexes"], include_in_schema=False)


@router.api_route("", methods=["GET"])
@router.api_route("/{path:path}", methods=["GET", "POST", "DELETE"])
async def indexes(request: Request, _: KnownCaller, path: str = "") -> StreamingResponse:
    """What the retriever answers. Whether the token may write is the retriever's to say."""
    if leads_elsewhere(path):
        raise NotFound("There is no such index.")
    return await forward(request, request.state.indexes, "retriever", PREFIX + (f"/{quote(path)}" if path else ""))
