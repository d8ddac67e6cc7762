"""Headers that keep a browser from doing more with an answer than it should."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
DOCUMENTATION_POLICY = PAGE_POLICY + "; script-src 'self' 'unsafe-inline'"
"""The generated page starts its script from within itself; it loads nothing from elsewhere."""
DOCUMENTATION = "/docs"
RawHeaders = list[tuple[bytes, bytes]]


def _raw(policy: str) -> RawHeaders:
    return [
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"content-security-policy", policy.encode()),
    ]


class SecurityHeaders:
    """Adds those that an answer does not bring itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._everywhere, self._documentation = _raw(PAGE_POLICY), _raw(DOCUMENTATION_POLICY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        ours = self._documentation if scope["path"] == DOCUMENTATION else self._everywhere

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                brought: RawHeaders = message.get("headers", [])
                names = {name.lower() for name, _ in brought}
                message["headers"] = [*brought, *(header for header in ours if header[0] not in names)]
            await send(message)

        await self.app(scope, receive, send_with_headers)
