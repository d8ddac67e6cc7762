"""Stamps `X-Policy-Version` on every answer of a generating route: the version of the weights that it was sampled from.

Plain ASGI, so that streams and disconnects pass untouched. A generation holds its place in the gate until its last byte, so no
weights change under it.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parallelsearch.errors import Overloaded
from policy.state import PolicyState
from servicekit.errors import render

HEADER = b"x-policy-version"
QUIET_PATHS = ("/tokenize", "/detokenize", "/v1/policy")


def generates(scope: Scope) -> bool:
    """Whether a request may reach the engine: every POST that is not known to be harmless."""
    return scope["type"] == "http" and scope["method"] == "POST" and not scope["path"].startswith(QUIET_PATHS)


class VersionMiddleware:
    def __init__(self, app: ASGIApp, *, state: PolicyState) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not generates(scope):
            await self.app(scope, receive, send)
            return
        try:
            async with self.state.gate.passing():
                await self._generate(scope, receive, send, str(self.state.version).encode())
        except Overloaded as error:
            await render(error)(scope, receive, send)

    async def _generate(self, scope: Scope, receive: Receive, send: Send, version: bytes) -> None:
        async def send_stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (HEADER, version)]
            await send(message)

        await self.app(scope, receive, send_stamped)
