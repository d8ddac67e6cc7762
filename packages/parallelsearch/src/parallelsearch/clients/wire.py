"""Requests to one upstream straight over a transport, for clients that send thousands of small ones.

What an httpx client does besides (cookies, redirects, authentication, merging of addresses) costs more than the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import httpx2
import stamina

from parallelsearch.clients.http import CONNECT_TIMEOUT_S, check, named, pool_limits
from parallelsearch.errors import UpstreamUnavailable

T = TypeVar("T")
JSON_HEADERS = {"content-type": "application/json"}
FIRST_WAIT_S = 0.05


class Wire:
    """One pool for one upstream. `timeout_s` bounds reading an answer; connecting has its own bound."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        timeout_s: float,
        headers: Mapping[str, str] = JSON_HEADERS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._name = name
        self._base = httpx2.URL(base_url.rstrip("/") + "/")
        self._urls: dict[str, httpx2.URL] = {}
        self._headers = httpx2.Headers(headers)
        self._timeouts = {"timeout": httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S).as_dict()}
        self._transport = transport or httpx2.AsyncHTTPTransport(limits=pool_limits(), trust_env=False)

    async def close(self) -> None:
        await self._transport.aclose()

    async def send(self, method: str, path: str, content: bytes = b"") -> httpx2.Response:
        """The whole answer, if it is a success.

        Raises:
            InvalidInput, NotFound, Overloaded, UpstreamUnavailable: as `clients.http.check` and `named` say.
        """
        request = self._request(method, path, content)
        async with named(self._name):
            response = await self._answer(request)
            await response.aread()
        return check(response, self._name)

    async def open(self, method: str, path: str, content: bytes = b"") -> httpx2.Response:
        """The beginning of an answer, if it is a success, to be read by `reading`; raises as `send` does."""
        request = self._request(method, path, content)
        async with named(self._name):
            response = await self._answer(request)
            if not response.is_success:
                await response.aread()
        return check(response, self._name)

    @asynccontextmanager
    async def reading(self, response: httpx2.Response) -> AsyncIterator[None]:
        """Names what fails while an opened answer is read; the request is aborted when the block is left early."""
        async with named(self._name), aclosing(response):
            yield

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._transport.handle_async_request(request)
        response.request = request
        return response

    def _request(self, method: str, path: str, content: bytes) -> httpx2.Request:
        url = self._urls.get(path)
        if url is None:
            # Paths are the few that clients name, so this stays small.
            url = self._urls[path] = self._base.join(path)
        return httpx2.Request(method, url, headers=self._headers, content=content or None, extensions=self._timeouts)


async def with_retries(work: Callable[[], Awaitable[T]], *, on: Callable[[Exception], bool], attempts: int, wait_max_s: float) -> T:
    """What `work` gives; tried again, with jitter, after failures that `on` approves of.

    The retrying library is called in only once the first attempt has failed: its bookkeeping costs as much as a request.
    """
    try:
        return await work()
    except UpstreamUnavailable as error:
        first: UpstreamUnavailable | None = error
    retrying = stamina.retry_context(on=on, attempts=attempts, wait_initial=FIRST_WAIT_S, wait_max=wait_max_s, timeout=None)
    async for attempt in retrying:
        with attempt:
            if first is not None:
                failed, first = first, None
                raise failed
            return await work()
    raise AssertionError("unreachable: the last attempt raises")
