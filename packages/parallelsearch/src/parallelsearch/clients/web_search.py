"""Clients of hosted web search APIs, in the two shapes that most of them speak: Serper's and SerpAPI's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Literal

import httpx2
import stamina
from pydantic import BaseModel, BeforeValidator, ValidationError

from parallelsearch.clients.http import check, create_client, may_retry, named
from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.rollout.types import Passage

WebProvider = Literal["serper", "serpapi"]
NAME = "web search"
ATTEMPTS = 3
MOST_RESULTS = 100
_ADDRESSES: dict[WebProvider, str] = {"serper": "https://google.serper.dev/search", "serpapi": "https://serpapi.com/search.json"}
_REFUSALS = {401, 402, 403}


Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Hit(BaseModel):
    """Null is as good as absent."""

    title: Text = ""
    link: Text = ""
    snippet: Text = ""


Hits = Annotated[list[_Hit], BeforeValidator(lambda value: [] if value is None else value)]


class _Answer(BaseModel):
    """Serper calls its list `organic`, SerpAPI `organic_results`; an answer without hits may lack it."""

    organic: Hits = []
    organic_results: Hits = []

    @property
    def hits(self) -> list[_Hit]:
        return self.organic or self.organic_results


class WebSearchClient:
    """One request per query, at most `in_flight` at a time. The key appears in no error."""

    def __init__(
        self,
        provider: WebProvider,
        key: str,
        *,
        url: str = "",
        timeout_s: float = 10.0,
        in_flight: int = 16,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.provider, self._key = provider, key
        self._url = url or _ADDRESSES[provider]
        self._timeout_s = timeout_s
        self._http = create_client(self._url, timeout_s=timeout_s, connections=in_flight, transport=transport)
        self._turn = asyncio.Semaphore(in_flight)

    async def close(self) -> None:
        await self._http.aclose()

    async def search(self, queries: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """At most `top_k` passages per query: the page's title, its snippet as text, its address as id and url.

        A score is one over the rank. A blank query finds nothing and costs nothing.

        Raises:
            UpstreamUnavailable: the API cannot be reached, refuses the key or answers badly.
            Overloaded: it says that there were too many requests.
        """
        searches = [asyncio.create_task(self._one(query, top_k)) for query in queries]
        try:
            return list(await asyncio.gather(*searches))
        finally:  # once one has failed nobody reads the others, and each is paid for
            for search in searches:
                search.cancel()

    async def _one(self, query: str, top_k: int) -> tuple[Passage, ...]:
        if not query.strip():
            return ()
        until = time.monotonic() + self._timeout_s
        retrying = stamina.retry_context(
            on=lambda error: may_retry(error, until), attempts=ATTEMPTS, wait_initial=0.2, wait_max=2, timeout=None
        )
        async for attempt in retrying:
            with attempt:
                async with self._turn:
                    return _passages(await self._ask(query, top_k), top_k)
        raise AssertionError("unreachable: the last attempt raises")

    async def _ask(self, query: str, top_k: int) -> _Answer:
        count = min(top_k, MOST_RESULTS)
        async with named(NAME):
            if self.provider == "serper":
                response = await self._http.post(self._url, json={"q": query, "num": count}, headers={"X-API-KEY": self._key})
            else:
                asked = {"engine": "google", "q": query, "num": str(count), "api_key": self._key}
                response = await self._http.get(self._url, params=asked)
        if response.status_code in _REFUSALS:
            raise UpstreamUnavailable(f"The {NAME} refuses the key ({response.status_code}). Check RETRIEVER_WEB_KEY.")
        try:
            return _Answer.model_validate_json(check(response, NAME).content)
        except ValidationError as error:
            raise UpstreamUnavailable(f"The {NAME}'s answer is not in the form of {self.provider}.") from error


def _passages(answer: _Answer, top_k: int) -> tuple[Passage, ...]:
    hits = [hit for hit in answer.hits if hit.link][:top_k]
    return tuple(Passage(hit.link, hit.title, hit.snippet, 1 / rank, hit.link) for rank, hit in enumerate(hits, start=1))
