"""The middleware every service has: request id, names it is asked by, size limit, metrics, log, and a last resort for errors.

Plain ASGI, so that streaming answers and disconnects pass through untouched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from servicekit import metrics, request_id
from servicekit.errors import forbidden, stopping, unexpected
from servicekit.hosts import Hosts

log = structlog.get_logger(__name__)

QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
CLIENT_CLOSED_REQUEST = 499
"""What is counted for a caller who hung up, and is answered to nobody."""


class RequestMiddleware:
    """Outermost layer; answers carry the request id in `X-Request-Id`. Probes may come by any name, all else by `hosts`."""

    def __init__(
        self, app: ASGIApp, *, max_body_bytes: int, larger_bodies: Mapping[str, int] | None = None, hosts: Hosts | None = None
    ) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.larger_bodies = larger_bodies or {}
        self.hosts = hosts

    def _limit(self, path: str) -> int:
        """The limit of a path: that of a prefix which has its own, else the common one."""
        return next((limit for prefix, limit in self.larger_bodies.items() if path.startswith(prefix)), self.max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        identifier = request_id.accept(given)
        token = request_id.current.set(identifier)
        structlog.contextvars.bind_contextvars(request_id=identifier)
        try:
            await self._serve(scope, receive, send, identifier)
        finally:
            structlog.contextvars.unbind_contextvars("request_id")
            request_id.current.reset(token)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, identifier: str) -> None:
        started, status = time.perf_counter(), 500
        headers_sent = False

        async def send_tagged(message: Message) -> None:
            nonlocal status, headers_sent
            if message["type"] == "http.response.start":
                status, headers_sent = message["status"], True
                message["headers"] = [*message.get("headers", []), (b"x-request-id", identifier.encode())]
            await send(message)

        try:
            if self.hosts is not None and scope["path"] not in QUIET_PATHS and not self.hosts.know(host := _host(scope)):
                await forbidden(self.hosts.refusal(host))(scope, receive, send_tagged)
                return
            await self.app(scope, BodyLimit(receive, self._limit(scope["path"])), send_tagged)
        except asyncio.CancelledError:  # the service ends, and waits no longer for what it has accepted
            if not headers_sent:
                await stopping()(scope, receive, send_tagged)
            raise
        except ClientDisconnect:  # in the middle of its request, or of the answer
            status = CLIENT_CLOSED_REQUEST
        except Exception as error:
            if headers_sent:
                raise
            await unexpected(error)(scope, receive, send_tagged)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "unmatched")
        metrics.REQUESTS.labels(scope["method"], path, str(status)).inc()
        metrics.REQUEST_SECONDS.labels(scope["method"], path).observe(seconds)
        if path not in QUIET_PATHS:
            log.info("request", method=scope["method"], path=path, status=status, ms=round(seconds * 1000, 2))


def _host(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")


class BodyLimit:
    """Counts what is received, so that a body without a Content-Length is limited too."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.receive, self.limit, self.received = receive, limit, 0

    async def __call__(self) -> Message:
        message = await self.receive()
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
            if self.received > self.limit:
                raise HTTPException(413, f"The body is larger than {self.limit} bytes. Send fewer or shorter items.")
        return message
