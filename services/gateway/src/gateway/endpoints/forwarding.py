"""Requests that another service answers, forwarded with the caller's token; both bodies pass through as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
from fastapi import Request
from fastapi.responses import StreamingResponse

from parallelsearch.clients.http import named
from servicekit.request_id import request_id

ASKED = ("authorization", "content-type", "accept", "idempotency-key", "last-event-id", "traceparent")
KEPT_FROM_SHOWING = ("content-disposition", "content-security-policy", "x-content-type-options")
"""What a file brings that a browser is to keep and not to show."""
ANSWERED = (
    *("content-type", "content-length", "content-encoding", "location", "retry-after", "cache-control", "www-authenticate"),
    *KEPT_FROM_SHOWING,
)


def leads_elsewhere(path: str) -> bool:
    """Whether a path has parts that would leave its prefix."""
    return any(part in {".", ".."} for part in path.split("/"))


async def forward(request: Request, upstream: httpx2.AsyncClient, name: str, path: str) -> StreamingResponse:
    """What the upstream answers to the same request under `path`."""
    url = httpx2.URL(path, query=request.url.query.encode())
    headers = {name: request.headers[name] for name in ASKED if name in request.headers}
    headers |= {"x-request-id": request_id(), "accept-encoding": request.headers.get("accept-encoding", "identity")}
    content = request.stream() if request.method not in {"GET", "HEAD"} else None
    async with named(name):
        response = await upstream.send(upstream.build_request(request.method, url, headers=headers, content=content), stream=True)
    kept = {name: response.headers[name] for name in ANSWERED if name in response.headers}
    return StreamingResponse(_passed_on(response), response.status_code, kept)


async def _passed_on(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_raw():
            yield piece
    finally:
        await response.aclose()
