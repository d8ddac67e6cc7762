"""Errors under OpenAI's paths, in OpenAI's form: whatever made the problem, its body is written anew as it leaves."""

from __future__ import annotations

import orjson
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parallelsearch.schemas.chat import ChatErrorBody

PATHS = ("/v1/chat", "/v1/models", "/v1/completions", "/v1/responses", "/v1/embeddings")
"""Those that OpenAI's clients ask, be there something or not."""
PROBLEM = "application/problem+json"


class OpenAIErrors:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_openais(scope["path"]):
            send = _Rewriting(send)
        await self.app(scope, receive, send)


class _Rewriting:
    """Holds a problem back until all of it is there; other answers pass untouched."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and MutableHeaders(raw=message["headers"]).get("content-type") == PROBLEM:
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_rewritten(self._start)

    async def _send_rewritten(self, start: Message) -> None:
        body = _rewritten(self._body)
        headers = MutableHeaders(raw=list(start["headers"]))
        headers["content-type"], headers["content-length"] = "application/json", str(len(body))
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})


def _is_openais(path: str) -> bool:
    return any(path == known or path.startswith(f"{known}/") for known in PATHS)


def _rewritten(problem: bytes) -> bytes:
    told = orjson.loads(problem)
    named = told.get("errors")
    param = named[0]["field"] if named else None
    error = ChatErrorBody.of(told["status"], told["detail"], param=param, code=told["type"].rpartition(":")[2])
    return error.model_dump_json().encode()
