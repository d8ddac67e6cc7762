"""Server-sent events: how they are written, the heartbeat, and when a reader is given up."""

from __future__ import annotations

from collections.abc import AsyncIterable

import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from gateway.settings import GatewaySettings

log = structlog.get_logger(__name__)
HEARTBEAT = ServerSentEvent(comment="heartbeat", sep="\n")


def server_sent(number: int, event: str, data: str) -> bytes:
    """One event; `data` is JSON, so it holds no line break."""
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n".encode()


def data_only(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


class CuttingOff(EventSourceResponse):
    """A reader that takes nothing is a line in the log and not a failure of ours."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.warning("reader_cut_off", after_s=self.send_timeout)


def stream_response(content: AsyncIterable[bytes], settings: GatewaySettings) -> EventSourceResponse:
    """A comment while nothing happens; a reader that takes nothing for the write time-out is cut off.

    At shut-down streams have the same grace as other requests.
    """
    return CuttingOff(
        content,
        ping=settings.heartbeat_s,
        ping_message_factory=lambda: HEARTBEAT,
        sep="\n",
        send_timeout=settings.stream_write_timeout_s,
        shutdown_grace_period=settings.shutdown_grace_s,
    )
