"""Requests to one upstream straight over a pool, for clients that send thousands of small ones.

What an httpx client does besides (cookies, redirects, authentication, merging of addresses) costs more than the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx2
import stamina

from parallelsearch.clients.http import check, checked_address, named, pool_limits, unreachable
from parallelsearch.clients.pools import Answer, Call, HttpxPool, Pool
from parallelsearch.errors import Overloaded, UpstreamUnavailable

T = TypeVar("T")
JSON_HEADERS = {"content-type": "application/json"}
FIRST_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole of a successful answer."""

    headers: Mapping[str, str]
    content: bytes


class Wire:
    """One pool for one upstream. `timeout_s` bounds reading an answer; connecting has its own bound."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        timeout_s: float,
        headers: Mapping[str, str] = JSON_HEADERS,
        pool: Pool | None = None,
    ) -> None:
        self._name = name
        self._base = checked_address(base_url).rstrip("/") + "/"
        self._headers = headers
        self._timeout_s = timeout_s
        self._pool = pool or HttpxPool(httpx2.AsyncHTTPTransport(limits=pool_limits(), trust_env=False))

    async def close(self) -> None:
        await self._pool.close()

    async def send(self, method: str, path: str, content: bytes = b"") -> Reply:
        """The whole answer, if it is a success.

        Raises:
            InvalidInput, NotFound, Overloaded, UpstreamUnavailable: as `clients.http.check` and `unreachable` say.
        """
        try:
            answer = await self._pool.open(self._call(method, path, content))
            body = await answer.read()
        except httpx2.HTTPError as error:
            raise unreachable(self._name, error) from error
        if not _is_success(answer):
            check(httpx2.Response(answer.status, headers=_headers(answer), content=body), self._name)
        return Reply(answer.headers, body)

    async def open(self, method: str, path: str, content: bytes = b"") -> httpx2.Response:
        """The beginning of an answer, if it is a success, to be read by `reading`; raises as `send` does."""
        async with named(self._name):
            answer = await self._pool.open(self._call(method, path, content))
            request = httpx2.Request(method, self._base + path)
            response = httpx2.Response(answer.status, headers=_headers(answer), stream=_Pieces(answer), request=request)
            if not response.is_success:
                await response.aread()
        return check(response, self._name)

    @asynccontextmanager
    async def reading(self, response: httpx2.Response) -> AsyncIterator[None]:
        """Names what fails while an opened answer is read; the request is aborted when the block is left early."""
        async with named(self._name), aclosing(response):
            yield

    def _call(self, method: str, path: str, content: bytes) -> Call:
        return Call(method, self._base + path, self._headers, content, self._timeout_s)


class _Pieces(httpx2.AsyncByteStream):
    """An answer as httpx reads one, which knows how to split it into events."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._answer.pieces()

    async def aclose(self) -> None:
        await self._answer.close()


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """As bytes, since a server may send any; without the encoding of a body, which the pool has undone."""
    return [
        (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
        for name, value in answer.headers.items()
        if name.lower() != "content-encoding"
    ]


def _is_success(answer: Answer) -> bool:
    return 200 <= answer.status < 300


async def with_retries(
    work: Callable[[], Awaitable[T]], *, on: Callable[[Exception], bool | float], attempts: int, wait_max_s: float
) -> T:
    """What `work` gives; tried again after failures that `on` approves of: with jitter, or after the seconds that it says.

    The retrying library is called in only once the first attempt has failed: its bookkeeping costs as much as a request.
    """
    try:
        return await work()
    except (UpstreamUnavailable, Overloaded) as error:
        first: UpstreamUnavailable | Overloaded | None = error
    retrying = stamina.retry_context(on=on, attempts=attempts, wait_initial=FIRST_WAIT_S, wait_max=wait_max_s, timeout=None)
    async for attempt in retrying:
        with attempt:
            if first is not None:
                failed, first = first, None
                raise failed
            return await work()
    raise AssertionError("unreachable: the last attempt raises")
