"""Server-sent events: how they are written, the heartbeat, and when a reader is given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any

import anyio
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from gateway.settings import GatewaySettings
from gateway.streaming import AnswerStream

log = structlog.get_logger(__name__)
FAREWELL_S = 2.0
"""So long before the end of the grace streams are stopped, so that their readers hear of it."""
HEARTBEAT = ServerSentEvent(comment="heartbeat", sep="\n")


def server_sent(number: int, event: str, data: str) -> bytes:
    """One event; `data` is JSON, so it holds no line break."""
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n".encode()


def data_only(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


class CuttingOff(EventSourceResponse):
    """A reader that takes nothing is a line in the log and not a failure of ours. At shut-down `stop` is called in time."""

    def __init__(
        self, content: AsyncIterable[bytes], *, stop: Callable[[], None], shutdown_grace_period: float, **options: Any
    ) -> None:
        self._shutting_down = anyio.Event()
        self._stop = stop
        self._grace_s = shutdown_grace_period
        super().__init__(content, shutdown_event=self._shutting_down, shutdown_grace_period=shutdown_grace_period, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopping = asyncio.create_task(self._stop_in_time())
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.warning("reader_cut_off", after_s=self.send_timeout)
        finally:
            stopping.cancel()

    async def _stop_in_time(self) -> None:
        await self._shutting_down.wait()
        await asyncio.sleep(self._grace_s - min(FAREWELL_S, self._grace_s / 2))
        self._stop()


def stream_response(content: AsyncIterable[bytes], stream: AnswerStream, settings: GatewaySettings) -> EventSourceResponse:
    """A comment while nothing happens; a reader that takes nothing for the write time-out is cut off.

    At shut-down streams have the same grace as other requests; what has not ended then is stopped.
    """
    return CuttingOff(
        content,
        stop=stream.stop,
        ping=settings.heartbeat_s,
        ping_message_factory=lambda: HEARTBEAT,
        sep="\n",
        send_timeout=settings.stream_write_timeout_s,
        shutdown_grace_period=settings.shutdown_grace_s,
    )
