"""An upstream that says when to come again is given that time, as far as there is time; other failures are tried again at once."""

import asyncio
import time

import httpx2
import orjson
import pytest

from parallelsearch.clients.policy_http import PolicyHttp
from parallelsearch.clients.pools import HttpxPool
from parallelsearch.clients.retriever import ATTEMPTS, RetrieverClient
from parallelsearch.clients.web_search import WebSearchClient
from parallelsearch.errors import Overloaded, RetrievalFailed, UpstreamUnavailable
from parallelsearch.schemas.retrieval import IndexModel

INDEX = IndexModel(fingerprint="f", encoder="e", dimension=1, metric="inner_product", kind="flat", passages=0, name="default")


class Upstream:
    """Refuses as often as told, then answers; what it was asked, and when, is kept."""

    def __init__(self, refusals, status=503, headers=None):
        self._left, self._status, self._headers = refusals, status, headers or {}
        self.asked, self.at = [], []

    def __call__(self, request):
        self.at.append(time.monotonic())
        self.asked.append(orjson.loads(request.content or b"{}"))
        if len(self.at) <= self._left:
            return httpx2.Response(self._status, json={"detail": "many wait"}, headers=self._headers)
        if "prompt" in self.asked[-1]:
            return httpx2.Response(200, json={"choices": [{"text": "x"}]})
        if "queries" in self.asked[-1]:
            return httpx2.Response(200, json={"results": [[] for _ in self.asked[-1]["queries"]], "index": INDEX.model_dump()})
        return httpx2.Response(200, json={"organic": []})


def ours(upstream, timeout_s, queries=("a",)):
    client = RetrieverClient("http://retriever", timeout_s=timeout_s, pool=HttpxPool(httpx2.MockTransport(upstream)))
    return client.search(queries, 3)


def web(upstream, timeout_s):
    return WebSearchClient("serper", "key", timeout_s=timeout_s, transport=httpx2.MockTransport(upstream)).search(["a"], 3)


def policy(upstream, timeout_s):
    http = PolicyHttp("http://policy/v1", patience_s=timeout_s, pool=HttpxPool(httpx2.MockTransport(upstream)))
    return http.post("v1/completions", {"prompt": "a"})


async def streamed(upstream, timeout_s):
    http = PolicyHttp("http://policy/v1", patience_s=timeout_s, pool=HttpxPool(httpx2.MockTransport(upstream)))
    async with http.stream("v1/completions", {"prompt": "a"}) as answer:
        return [chunk async for chunk in answer.chunks]


@pytest.mark.parametrize("search", [ours, web, policy, streamed])
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_that_is_asked_for_is_given(search, status):
    upstream = Upstream(1, status, {"retry-after": "1"})
    asyncio.run(search(upstream, 10))
    assert len(upstream.at) == 2
    assert upstream.at[1] - upstream.at[0] >= 1


@pytest.mark.parametrize("search", [ours, web, policy, streamed])
@pytest.mark.parametrize("status", [429, 503])
def test_more_time_than_there_is_is_not_waited_for_and_is_told(search, status):
    upstream = Upstream(99, status, {"retry-after": "30"})
    with pytest.raises((RetrievalFailed, UpstreamUnavailable, Overloaded)) as failure:
        asyncio.run(search(upstream, 10))
    assert (len(upstream.at), failure.value.retry_after_s) == (1, 30)


def test_all_waits_of_a_search_fit_into_its_time():
    upstream = Upstream(99, 503, {"retry-after": "1"})
    started = time.monotonic()
    with pytest.raises(RetrievalFailed):
        asyncio.run(ours(upstream, 2, ("a", "b")))
    assert time.monotonic() - started < 2
    assert upstream.asked == [{"queries": ["a", "b"], "top_k": 3}] * 2  # nor is it asked once per query


def test_a_failure_that_asks_for_no_time_is_tried_again_soon_and_each_query_alone():
    upstream = Upstream(ATTEMPTS, 503)
    started = time.monotonic()
    asyncio.run(ours(upstream, 10, ("a", "b")))
    assert time.monotonic() - started < 3
    assert [asked["queries"] for asked in upstream.asked] == [["a", "b"]] * ATTEMPTS + [["a"], ["b"]]


def test_a_policy_that_is_only_looked_at_is_not_waited_for():
    upstream = Upstream(1, 503, {"retry-after": "1"})
    http = PolicyHttp("http://policy/v1", pool=HttpxPool(httpx2.MockTransport(upstream)))
    with pytest.raises(UpstreamUnavailable):
        asyncio.run(http.get("v1/models"))
    assert len(upstream.at) == 1
