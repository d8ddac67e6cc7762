"""An httpx transport for processes with thousands of requests in flight: HTTP/1.1 and no more, parsed by httptools as in uvicorn.

httpx's own pool looks at all of its connections for each request, and a general client does more for one than there is time for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from functools import cached_property
from typing import cast

import httptools
import httpx2

MAX_HEAD_BYTES = 65_536
MAX_UNREAD_BYTES = 262_144
"""Of a stream: beyond it the server has to wait for the reader."""
NO_ANSWER = "the server closed the connection without an answer"
Origin = tuple[str, str, int]


class Http1Transport(httpx2.AsyncBaseTransport):
    """Keeps at most `connections`, each for as long as it was used within the last `keep_alive_s`.

    An answer that says its length is given whole once it is there; any other is a stream, given when it begins.
    """

    def __init__(self, *, connections: int, keep_alive_s: float) -> None:
        self._keep_alive_s = keep_alive_s
        self._places = asyncio.Semaphore(connections)
        self._idle: dict[Origin, deque[_Connection]] = {}
        self._open: set[_Connection] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits = request.extensions.get("timeout", {})
        content = _head(request) + await request.aread()
        await self._place(request, limits.get("pool"))
        try:
            connection = self._reused(request.url) or await self._connected(request, limits.get("connect"))
            answer = connection.ask(request, content, limits.get("read"))
        except BaseException:
            self._places.release()
            raise
        try:
            await answer.begun()
        except BaseException:
            connection.abort()
            raise
        return httpx2.Response(answer.status, headers=answer.headers, stream=answer)

    async def aclose(self) -> None:
        """Breaks off what is under way. A request that comes later opens a connection anew."""
        for connection in list(self._open):
            connection.abort()

    async def _place(self, request: httpx2.Request, timeout_s: float | None) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._places.acquire()
        except TimeoutError as error:
            raise httpx2.PoolTimeout("all connections are taken", request=request) from error

    def _reused(self, url: httpx2.URL) -> _Connection | None:
        """The connection that was used last, of those that can still be used; what was not used for too long is closed."""
        idle = self._idle.get(_origin(url))
        if not idle:
            return None
        oldest = asyncio.get_running_loop().time() - self._keep_alive_s
        while idle and (idle[0].is_closed or idle[0].used_at < oldest):
            idle.popleft().abort()
        while idle:
            connection = idle.pop()
            if not connection.is_closed:
                return connection
        return None

    async def _connected(self, request: httpx2.Request, timeout_s: float | None) -> _Connection:
        origin = scheme, host, port = _origin(request.url)
        tls = self._tls if scheme == "https" else None
        try:
            async with asyncio.timeout(timeout_s):
                connecting = asyncio.get_running_loop().create_connection(lambda: _Connection(self, origin), host, port, ssl=tls)
                _, connection = await connecting
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(f"no connection to {host}:{port} in time", request=request) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error) or type(error).__name__, request=request) from error
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def answered(self, connection: _Connection, *, reusable: bool) -> None:
        """A connection tells that its request is over."""
        self._places.release()
        if reusable:
            self._idle.setdefault(connection.origin, deque()).append(connection)

    def opened(self, connection: _Connection) -> None:
        self._open.add(connection)

    def closed(self, connection: _Connection) -> None:
        self._open.discard(connection)


class _Answer(httpx2.AsyncByteStream):
    """One answer as it is parsed (httptools calls `on_…`) and as it is read."""

    def __init__(self, connection: _Connection, request: httpx2.Request) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_over = False
        self.is_stream = False
        self._connection = connection
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: deque[bytes] = deque()
        self._head_bytes = self._unread_bytes = 0
        self._failure: httpx2.TransportError | None = None
        self._news: asyncio.Future[None] | None = None

    async def begun(self) -> None:
        """Waits until it can be given: whole, or the head of a stream."""
        while not (self.is_over or self.is_stream):
            await self._wait()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._unread_bytes -= len(piece)
                yield piece
            if self.is_over:
                return
            self._connection.let_read(True)
            await self._wait()

    async def aclose(self) -> None:
        """What was not read to its end takes its connection with it, which tells the server that nobody waits."""
        if not self.is_over:
            self._connection.abort()

    async def _wait(self) -> None:
        """For something new; what came before a failure is read before it."""
        if self._failure is not None:
            raise self._failure
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(httpx2.RemoteProtocolError(f"the answer is not HTTP: {error}"))
            self._connection.abort()

    def fail(self, failure: httpx2.TransportError) -> None:
        if not self.is_over and self._failure is None:
            failure.request = self._request
            self._failure = failure
            self._wake()

    def let_go(self) -> None:
        """Nothing more will be parsed; parser and answer hold each other until then."""
        del self._parser

    def lost(self, error: Exception | None) -> None:
        """The connection is gone, which ends an answer that has neither a length nor chunks."""
        names = {name.lower() for name, _ in self.headers}
        if self.is_stream and error is None and b"transfer-encoding" not in names:
            self.on_message_complete()
        elif self.status:
            self.fail(httpx2.ReadError(f"the connection broke off in the middle of an answer{f': {error}' if error else ''}"))
        else:
            self.fail(httpx2.RemoteProtocolError(NO_ANSWER))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("its head is too long")
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # there is more to come
            self.headers.clear()
            return
        self.status = status
        self.is_stream = not any(name.lower() == b"content-length" for name, _ in self.headers)
        if self.is_stream:
            self._wake()

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._unread_bytes += len(piece)
        if self.is_stream:
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self._connection.let_read(False)
            self._wake()

    def on_message_complete(self) -> None:
        if self.status:
            self.is_over = True
            self._connection.answered(reusable=self._parser.should_keep_alive())
            self._wake()


class _Connection(asyncio.Protocol):
    """Carries one request at a time."""

    def __init__(self, pool: Http1Transport, origin: Origin) -> None:
        self.origin = origin
        self.used_at = 0.0
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._answer: _Answer | None = None
        self._read_timeout_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._is_paused = False

    def ask(self, request: httpx2.Request, content: bytes, read_timeout_s: float | None) -> _Answer:
        if self.is_closed:
            raise httpx2.RemoteProtocolError(NO_ANSWER, request=request)
        self._transport.write(content)
        self._answer = answer = _Answer(self, request)
        self.used_at = self._loop.time()
        if read_timeout_s is not None:
            self._read_timeout_s = read_timeout_s
            self._watch = self._loop.call_later(read_timeout_s, self._look)
        return answer

    @property
    def is_closed(self) -> bool:
        return self._transport.is_closing()

    def abort(self) -> None:
        self._transport.abort()

    def let_read(self, wanted: bool) -> None:
        if wanted is self._is_paused and not self.is_closed:
            self._is_paused = not wanted
            self.used_at = self._loop.time()
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    def answered(self, *, reusable: bool) -> None:
        if self._answer is not None:
            self._answer.let_go()
            self._answer = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        reusable = reusable and not self.is_closed
        self.let_read(True)
        self._pool.answered(self, reusable=reusable)
        if not reusable:
            self.abort()

    def _look(self) -> None:
        """Gives up if nothing came for too long."""
        idle_s = 0.0 if self._is_paused else self._loop.time() - self.used_at
        if idle_s < self._read_timeout_s:
            self._watch = self._loop.call_later(self._read_timeout_s - idle_s, self._look)
        elif self._answer is not None:
            self._answer.fail(httpx2.ReadTimeout(f"nothing came for {self._read_timeout_s:g} s"))
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        self.used_at = self._loop.time()
        if self._answer is not None:
            self._answer.feed(data)
        else:  # nobody asked
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.closed(self)
        if (answer := self._answer) is not None:
            answer.lost(exc)
        if self._answer is not None:
            self.answered(reusable=False)


def _origin(url: httpx2.URL) -> Origin:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _head(request: httpx2.Request) -> bytes:
    parts = [b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    for name, value in request.headers.raw:
        if b"\n" in value or b"\r" in value:
            raise httpx2.LocalProtocolError(f"the value of the header {name.decode()} holds a line break", request=request)
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)
