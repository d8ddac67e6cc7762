"""The pool to a policy server: JSON in, JSON or a stream of JSON chunks out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import orjson

from parallelsearch.clients.http import MAX_DETAIL_CHARACTERS, checked_token, may_retry
from parallelsearch.clients.pools import Pool
from parallelsearch.clients.wire import JSON_HEADERS, Wire, with_retries
from parallelsearch.errors import ParallelSearchError, UpstreamUnavailable
from parallelsearch.rollout.types import PolicyIdentity

NAME = "policy"
VERSION_HEADER = "x-policy-version"
EVENT_STREAM = "text/event-stream"
END_OF_STREAM = "[DONE]"
MOST_TOKENS = 2**31 - 1
"""More than any context holds."""
Json = dict[str, Any]
PATIENCE_S = 10.0
"""So long at most is waited for a policy that says when to come again, all waits of a request together."""
ATTEMPTS = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chunks:
    """What a completion is answered with, as it comes: one chunk from a server that does not stream."""

    chunks: AsyncIterator[Json]
    headers: Mapping[str, str]


class PolicyHttp:
    """One pool to a policy server; `base_url` ends in `/v1` as for every OpenAI client, vLLM's own routes lie beside it.

    What is posted is given the time that an overloaded server asks for, up to `patience_s`; what is only looked at is not.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 120.0,
        api_key: str = "",
        pool: Pool | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        root = base_url.rstrip("/").removesuffix("/v1")
        headers = JSON_HEADERS | ({"authorization": f"Bearer {checked_token(api_key, 'POLICY_API_KEY')}"} if api_key else {})
        self._patience_s = patience_s
        self._wire = Wire(NAME, root, timeout_s=timeout_s, headers=headers, pool=pool)

    async def close(self) -> None:
        await self._wire.close()

    async def get(self, path: str) -> Json:
        return _json((await self._tried(lambda: self._wire.send("GET", path))).content)

    async def get_bytes(self, path: str) -> bytes:
        return (await self._tried(lambda: self._wire.send("GET", path))).content

    async def post(self, path: str, body: Json) -> tuple[Json, Mapping[str, str]]:
        content = orjson.dumps(body)
        response = await self._tried(lambda: self._wire.send("POST", path, content), self._patience_s)
        return _json(response.content), response.headers

    @asynccontextmanager
    async def stream(self, path: str, body: Json) -> AsyncIterator[Chunks]:
        """Asks for a stream, with the usage at its end; the request is aborted when the block is left early."""
        content = orjson.dumps(body | {"stream": True, "stream_options": {"include_usage": True}})
        response = await self._tried(lambda: self._wire.open("POST", path, content), self._patience_s)
        async with self._wire.reading(response):
            yield Chunks(_chunks(response), response.headers)

    @staticmethod
    async def _tried(work: Callable[[], Awaitable[T]], patience_s: float = 0.0) -> T:
        """Tried again only where the server never began to answer, or said when to come again."""
        until = time.monotonic() + patience_s
        return await with_retries(work, on=lambda error: _again(error, until), attempts=ATTEMPTS, wait_max_s=0.2)


def _again(error: Exception, until: float) -> bool | float:
    if isinstance(error, ParallelSearchError) and error.asked_to_wait:
        return may_retry(error, until)
    return isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.RemoteProtocolError)


class Patience:
    """How often, and how long in all, one request still waits for a policy that says when to come again."""

    def __init__(self) -> None:
        self._until, self._left = time.monotonic() + PATIENCE_S, ATTEMPTS - 1

    async def waited(self, error: ParallelSearchError) -> bool:
        """Whether the time that the server asked for, if it did, was there and is over."""
        wait_s = may_retry(error, self._until) if error.asked_to_wait and self._left else False
        if wait_s:
            self._left -= 1
            await asyncio.sleep(wait_s)
        return bool(wait_s)


async def _chunks(response: httpx2.Response) -> AsyncIterator[Json]:
    if not response.headers.get("content-type", "").startswith(EVENT_STREAM):
        yield _json(await response.aread())
        return
    async for event in httpx2.EventSource(response):
        if event.data == END_OF_STREAM:
            return
        chunk = _json(event.data)
        if "error" in chunk:
            raise UpstreamUnavailable(f"The policy broke off: {_message(chunk['error'])}", retry_after_s=2)
        yield chunk
    raise UpstreamUnavailable("The policy broke off in the middle of an answer.", retry_after_s=2)


def _json(content: bytes | str) -> Json:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise UpstreamUnavailable("The policy's answer is not JSON.") from error
    if not isinstance(body, dict):
        raise UpstreamUnavailable("The policy's answer is not a JSON object.")
    return body


def _message(error: object) -> str:
    return str(error.get("message", error) if isinstance(error, dict) else error)[:MAX_DETAIL_CHARACTERS]


def count(usage: object, name: str) -> int:
    """A number of tokens as the server counts them; 0 where it does not say, or says what is none."""
    number = usage.get(name) if isinstance(usage, dict) else None
    return number if type(number) is int and 0 < number <= MOST_TOKENS else 0


def first_choice(answer: Json) -> Json:
    """The first choice of a completion.

    Raises:
        UpstreamUnavailable: there is none.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UpstreamUnavailable("The policy's answer holds no choices.")
    return choices[0]


def identity(model: str, headers: Mapping[str, str]) -> PolicyIdentity | None:
    version = headers.get(VERSION_HEADER)
    return PolicyIdentity(model, version) if version and version.isascii() else None
