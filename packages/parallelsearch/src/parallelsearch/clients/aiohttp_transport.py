"""An httpx transport over aiohttp's connection pool, for processes with hundreds of requests in flight.

httpx's own pool looks at all of its connections for each request, which at 256 in flight is most of the gateway's CPU time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

_OWN_HEADERS = frozenset({"content-length", "transfer-encoding"})


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """One pool of at most `connections`, which close after `keep_alive_s` without use."""

    def __init__(self, *, connections: int, keep_alive_s: float) -> None:
        self._connections = connections
        self._keep_alive_s = keep_alive_s
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        headers = [(name, value) for name, value in request.headers.items() if name not in _OWN_HEADERS]
        with _renamed(request):
            response = await self._open_session().request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=headers,
                data=content or None,
                timeout=_timeout(request),
                allow_redirects=False,
            )
        return httpx2.Response(response.status, headers=response.raw_headers, stream=_Body(response, request))

    async def aclose(self) -> None:
        """Breaks off what is under way. A request that comes later opens a new pool."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        """Made with the first request, since aiohttp wants a running event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=self._keep_alive_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _renamed(self._request):
            async for piece in self._response.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        """A body that was not read to its end takes its connection with it, which tells the server that nobody waits."""
        self._response.close()


def _timeout(request: httpx2.Request) -> aiohttp.ClientTimeout:
    limits = request.extensions.get("timeout", {})
    return aiohttp.ClientTimeout(
        total=None, connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
    )


@contextmanager
def _renamed(request: httpx2.Request) -> Iterator[None]:
    """aiohttp's failures under httpx's names."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error), request=request) from error
    except (TimeoutError, aiohttp.ServerTimeoutError) as error:
        raise httpx2.ReadTimeout(str(error), request=request) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error), request=request) from error
    except aiohttp.ServerDisconnectedError as error:
        raise httpx2.RemoteProtocolError("the server closed the connection without an answer", request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(str(error) or type(error).__name__, request=request) from error
