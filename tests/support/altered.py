"""Upstreams whose JSON is changed on its way to the gateway: what other servers, and other releases of ours, may answer."""

import json
from collections.abc import Callable

from starlette.types import ASGIApp


def altered(app: ASGIApp, path: str, change: Callable) -> ASGIApp:
    """`change` gets what was asked and what is answered on this path; it changes the answer, gives another, or a status."""

    async def changed(scope, receive, send):
        if scope["type"] != "http" or scope["path"] != path:
            await app(scope, receive, send)
            return
        asked, answered, head = b"", b"", {}

        async def listen():
            nonlocal asked
            message = await receive()
            asked += message.get("body", b"")
            return message

        async def collect(message):
            nonlocal answered, head
            head = message if message["type"] == "http.response.start" else head
            answered += message.get("body", b"")

        await app(scope, listen, collect)
        answer = json.loads(answered)
        instead = change(json.loads(asked or b"null"), answer)
        status = instead if isinstance(instead, int) else head["status"]
        body = json.dumps(answer if instead is None else instead).encode()
        headers = [(name, value) for name, value in head["headers"] if name != b"content-length"]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return changed
