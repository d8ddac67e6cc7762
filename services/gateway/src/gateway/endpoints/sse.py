"""Server-sent events: how they are written, the heartbeat, and when a reader is given up."""

from __future__ import annotations

from collections.abc import AsyncIterable

from sse_starlette import EventSourceResponse, ServerSentEvent

from gateway.settings import GatewaySettings

HEARTBEAT = ServerSentEvent(comment="heartbeat", sep="\n")


def server_sent(number: int, event: str, data: str) -> bytes:
    """One event; `data` is JSON, so it holds no line break."""
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n".encode()


def data_only(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def stream_response(content: AsyncIterable[bytes], settings: GatewaySettings) -> EventSourceResponse:
    """A comment while nothing happens; a reader that takes nothing for the write time-out is cut off.

    At shut-down streams have the same grace as other requests.
    """
    return EventSourceResponse(
        content,
        ping=settings.heartbeat_s,
        ping_message_factory=lambda: HEARTBEAT,
        sep="\n",
        send_timeout=settings.stream_write_timeout_s,
        shutdown_grace_period=settings.shutdown_grace_s,
    )
