"""A pool over aiohttp, for processes with hundreds of requests in flight.

httpx's own pool looks at all of its connections for each request, which at 256 in flight is most of the gateway's CPU time; and
its requests and answers, put around those of aiohttp, cost as much again as half of the exchange.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import lru_cache

import aiohttp
import httpx2
from yarl import URL

from parallelsearch.clients.http import CONNECT_TIMEOUT_S
from parallelsearch.clients.pools import Call


class AiohttpPool:
    """At most `connections`, which close after `keep_alive_s` without use."""

    def __init__(self, *, connections: int, keep_alive_s: float) -> None:
        self._connections = connections
        self._keep_alive_s = keep_alive_s
        self._session: aiohttp.ClientSession | None = None

    async def open(self, call: Call) -> AiohttpAnswer:
        try:
            response = await self._opened().request(
                call.method,
                _url(call.url),
                headers=call.headers,
                data=call.content or None,
                timeout=_timeout(call.timeout_s),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise _renamed(error) from error
        return AiohttpAnswer(response)

    async def close(self) -> None:
        """Breaks off what is under way. A call that comes later opens a new pool."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """Made with the first call, since aiohttp wants a running event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=self._keep_alive_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                trust_env=False,
            )
        return self._session


class AiohttpAnswer:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise _renamed(error) from error

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise _renamed(error) from error

    async def close(self) -> None:
        """A body that was not read to its end takes its connection with it."""
        self._response.close()


@lru_cache(maxsize=256)
def _url(url: str) -> URL:
    """Clients name few paths, so each is looked at once."""
    return URL(url, encoded=True)


@lru_cache(maxsize=64)
def _timeout(timeout_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=timeout_s, sock_connect=CONNECT_TIMEOUT_S, sock_read=timeout_s)


def _renamed(error: Exception) -> httpx2.TransportError:
    """aiohttp's failure under httpx's name for it."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return httpx2.ConnectTimeout(str(error))
        case TimeoutError():
            return httpx2.ReadTimeout(str(error))
        case aiohttp.ClientConnectorError():
            return httpx2.ConnectError(str(error))
        case aiohttp.ServerDisconnectedError():
            return httpx2.RemoteProtocolError("the server closed the connection without an answer")
        case _:
            return httpx2.ReadError(str(error) or type(error).__name__)
