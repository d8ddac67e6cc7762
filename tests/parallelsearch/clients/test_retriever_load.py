"""How many requests a retriever that fails is sent: one query must not fail the others, and overload must not make load."""

import asyncio

import httpx2
import orjson
import pytest

from parallelsearch.clients.pools import HttpxPool
from parallelsearch.clients.retriever import ATTEMPTS, RetrieverClient
from parallelsearch.errors import Overloaded, RetrievalFailed, UpstreamUnavailable
from servicekit.errors import render

QUERIES = [f"query {number}" for number in range(8)]
INDEX = {"fingerprint": "f", "encoder": "none", "dimension": 1, "metric": "inner_product", "kind": "flat", "passages": 1}


def client_of(answer):
    """A client of a retriever that gives `answer(queries)`, a response or rows, and the batches that it was sent."""
    batches = []

    def handler(request):
        batches.append(orjson.loads(request.content)["queries"])
        given = answer(batches[-1])
        return given if isinstance(given, httpx2.Response) else httpx2.Response(200, json={"results": given, "index": INDEX})

    return RetrieverClient("http://retriever", pool=HttpxPool(httpx2.MockTransport(handler))), batches


def rendered(error):
    response = render(error)
    return httpx2.Response(response.status_code, content=response.body, headers=dict(response.headers))


@pytest.mark.parametrize(
    "refusal",
    [
        rendered(Overloaded("8192 queries wait already.", retry_after_s=1)),
        *(httpx2.Response(status, text="from a proxy") for status in (502, 504)),
    ],
)
def test_a_retriever_that_has_no_room_is_not_asked_once_per_query_too(refusal):
    client, batches = client_of(lambda _: httpx2.Response(refusal.status_code, content=refusal.content, headers=refusal.headers))
    with pytest.raises(RetrievalFailed):
        asyncio.run(client.search(QUERIES, 3))
    assert len(batches) <= ATTEMPTS


@pytest.mark.parametrize(
    "failure", [httpx2.Response(500), httpx2.Response(422), rendered(UpstreamUnavailable("The web search answered 500."))]
)
def test_a_query_that_fails_fails_alone(failure):
    def answer(queries):
        fresh = httpx2.Response(failure.status_code, content=failure.content, headers=failure.headers)
        return fresh if QUERIES[2] in queries else [[] for _ in queries]

    client, _ = client_of(answer)
    found = asyncio.run(client.search(QUERIES, 3))
    assert [result.failed for result in found.results] == [query == QUERIES[2] for query in QUERIES]
