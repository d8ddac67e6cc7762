"""A route for endpoints that read their request and make their response themselves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute


class DirectRoute(APIRoute):
    """Calls `endpoint(request)` and sends what it returns; the OpenAPI document shows it as any other.

    Working out dependencies costs more than a cached search; an endpoint here has none, and one that asks for any fails at
    its first call. Its parameters beside the request are not filled in.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def until_answered(request: Request) -> AsyncExitStack:
    """What is entered here is left once the answer has been sent, streams to their end; FastAPI's dependencies use the same."""
    stack: AsyncExitStack = request.scope["fastapi_inner_astack"]
    return stack
