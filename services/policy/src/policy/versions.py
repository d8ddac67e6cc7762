"""Stamps `X-Policy-Version` on every answer of a generating route. Plain ASGI, so that streams and disconnects pass untouched."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from policy.state import PolicyState

HEADER = b"x-policy-version"
QUIET_PATHS = ("/tokenize", "/detokenize", "/v1/policy", "/is_scaling_elastic_ep")


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
        version = str(self.state.version).encode()

        async def send_stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (HEADER, version)]
            await send(message)

        await self.app(scope, receive, send_stamped)
