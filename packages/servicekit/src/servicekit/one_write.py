"""Sends the head of an answer together with the beginning of its body.

Each write wakes whoever waits for the answer, which costs both sides more than the bytes do.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HeadWithBody:
    """The transport as one answer sees it: its first write waits for a second one until the event loop is free."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._begun = False

    def write(self, data: bytes) -> None:
        if self._begun:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            self._begun, self._head = True, data
            asyncio.get_running_loop().call_soon(self._send_head)

    def close(self) -> None:
        self._send_head()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _send_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's, with such a transport for each answer."""

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self.cycle.transport = HeadWithBody(self.transport)  # type: ignore[assignment]  # of a transport it uses no more
