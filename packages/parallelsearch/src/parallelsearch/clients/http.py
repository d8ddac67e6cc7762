"""How every HTTP client of the project is made and how its failures are named."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson

from parallelsearch.errors import InvalidInput, NotFound, Overloaded, ParallelSearchError, UpstreamUnavailable

CONNECT_TIMEOUT_S = 2.0
KEEP_ALIVE_S = 4.0
"""Less than what servers allow (uvicorn: 5 s), so that no request is sent into a connection that is just being closed."""
MAX_DETAIL_CHARACTERS = 300
LONGEST_RETRY_AFTER_S = 3_600.0
LONGEST_JITTER_S = 0.5
_BY_STATUS: dict[int, type[ParallelSearchError]] = {404: NotFound, 422: InvalidInput, 429: Overloaded}


_SENDABLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
"""What may stand in a header."""


def without_password(url: object) -> str:
    """The address as it may be told: without what says who asks."""
    return re.sub(r"(?<=//)[^/?#]*@", "", str(url))


def checked_address(url: str) -> str:
    """The address, if a client can be made for it.

    Raises:
        InvalidInput: it is no address of a server.
    """
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and " " not in url
        is_one = is_one and bool(httpx2.URL(url).host)
    except (ValueError, httpx2.InvalidURL):  # brackets left open, or a port beyond the last
        is_one = False
    if not is_one:
        raise InvalidInput(f"{without_password(url)!r} is no address of the form http://host:port.")
    return url


def checked_token(token: str, name: str) -> str:
    """The token, which may be empty, if it can be sent; `name` is that of its variable.

    Raises:
        InvalidInput: it holds what no header can.
    """
    if token and not _SENDABLE.fullmatch(token):
        raise InvalidInput(f"{name}: only printable ASCII characters can be sent.")
    return token


class Refusal(Exception):
    """What an upstream answered instead of a success: the cause of the error that `check` makes of it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def create_client(
    base_url: str, *, timeout_s: float, connections: int = 512, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    """One pool for one upstream. `timeout_s` bounds reading an answer; connecting and waiting for a connection have their own."""
    return httpx2.AsyncClient(
        base_url=checked_address(base_url).rstrip("/") + "/",
        timeout=httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        limits=pool_limits(connections),
        transport=transport,
        trust_env=False,
    )


def pool_limits(connections: int = 512) -> httpx2.Limits:
    return httpx2.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=KEEP_ALIVE_S)


@asynccontextmanager
async def named(upstream: str) -> AsyncIterator[None]:
    """Turns what httpx raises into `UpstreamUnavailable`, which says which upstream and what happened."""
    try:
        yield
    except httpx2.HTTPError as error:
        raise unreachable(upstream, error) from error


def unreachable(upstream: str, error: httpx2.HTTPError) -> UpstreamUnavailable:
    if isinstance(error, httpx2.TimeoutException):
        return UpstreamUnavailable(f"The {upstream} did not answer in time.", retry_after_s=2)
    return UpstreamUnavailable(f"The {upstream} cannot be reached: {str(error) or type(error).__name__}.", retry_after_s=2)


def check(response: httpx2.Response, upstream: str) -> httpx2.Response:
    """The response if it is a success.

    Raises:
        InvalidInput, NotFound, Overloaded: as the upstream says (422, 404, 429).
        UpstreamUnavailable: any other status.
    """
    if response.is_success:
        return response
    kind = _BY_STATUS.get(response.status_code, UpstreamUnavailable)
    error = kind(f"The {upstream} answered {response.status_code}: {_detail(response)}", retry_after_s=_retry_after(response))
    error.asked_to_wait = error.retryable and "retry-after" in response.headers
    raise error from Refusal(response.status_code)


def may_retry(error: Exception, until: float) -> bool | float:
    """Whether to try again: after a failure of the upstream's own yes, after how many seconds if it asked to wait.

    That wait, with jitter, has to end before `until` (`time.monotonic()`).
    """
    if not isinstance(error, ParallelSearchError) or not error.asked_to_wait:
        return isinstance(error, UpstreamUnavailable)
    wait_s = (error.retry_after_s or 0) + random.uniform(0, LONGEST_JITTER_S)
    return wait_s if time.monotonic() + wait_s < until else False


def said(response: httpx2.Response) -> Any:
    """The body as JSON, else as text. What it holds can be sent on as JSON, whatever encoding the server speaks of."""
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return response.content.decode(errors="replace")


def _detail(response: httpx2.Response) -> str:
    body = said(response)
    detail = body.get("detail") or body.get("error") or body if isinstance(body, dict) else body
    if isinstance(detail, dict):
        detail = detail.get("message", detail)
    return str(detail)[:MAX_DETAIL_CHARACTERS]


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds; a date, or what is no number of seconds, is taken for the least."""
    try:
        seconds = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        seconds = math.nan
    if math.isfinite(seconds) and seconds >= 0:
        return min(seconds, LONGEST_RETRY_AFTER_S)
    return 1.0 if response.status_code in {429, 503} else None
