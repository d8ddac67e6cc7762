"""How clients reach an upstream: a call goes out over a pool of connections, its answer is read whole or in pieces.

What fails on the way is raised under httpx's names (`httpx2.TransportError`), whatever the pool is made of.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx2

from parallelsearch.clients.http import CONNECT_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `timeout_s` bounds the wait for its answer and for each piece of it; connecting has its own bound."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes
    timeout_s: float


class Answer(Protocol):
    """An answer of which status and headers are there, and of which the body is decoded as it is read.

    Names of headers are the same in upper and lower case.
    """

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes:
        """The whole body."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        ...

    async def close(self) -> None:
        """Breaks off what was not read, which tells the server that nobody waits."""
        ...


class Pool(Protocol):
    async def open(self, call: Call) -> Answer: ...

    async def close(self) -> None: ...


class HttpxPool:
    """Any httpx transport as a pool: httpx's own for the network, an application's for tests."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def open(self, call: Call) -> HttpxAnswer:
        request = httpx2.Request(
            call.method,
            call.url,
            headers=call.headers,
            content=call.content or None,
            extensions={"timeout": httpx2.Timeout(call.timeout_s, connect=CONNECT_TIMEOUT_S).as_dict()},
        )
        return HttpxAnswer(await self._transport.handle_async_request(request))

    async def close(self) -> None:
        await self._transport.aclose()


class HttpxAnswer:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        return await self._response.aread()

    def pieces(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()

    async def close(self) -> None:
        await self._response.aclose()
