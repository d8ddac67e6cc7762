"""A hosted web search behind the same API, in both shapes, against stand-ins on real sockets; off by default."""

import asyncio
import time

import pytest
from live import live
from loopback import LoopbackClient
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from parallelsearch.errors import ConfigurationError
from retriever.app import create_app, open_retriever
from retriever.settings import RetrieverSettings

KEY = "sesame-0123"
HITS = [
    {"position": 1, "title": "Claude Monet", "link": "https://example.org/monet", "snippet": "A painter.", "sitelinks": []},
    {"position": 2, "title": "No address", "link": None, "snippet": "Left out."},
    {"position": 3, "title": "Giverny", "link": "https://example.org/giverny", "snippet": None},
    {"position": 4, "title": "Third", "link": "https://example.org/third", "snippet": "More."},
]

ANSWERS = {"nothing": lambda name: {}, "null": lambda name: {name: None}}
"""What some queries find; others find `HITS`."""


class StandIn:
    """Answers as both APIs do, and remembers what it was asked."""

    def __init__(self):
        self.asked, self.most_at_once, self._now = [], 0, 0
        self.failures, self.status = 0, 200
        self.app = Starlette(
            routes=[Route("/serper", self.serper, methods=["POST"]), Route("/serpapi", self.serpapi, methods=["GET"])]
        )

    async def serper(self, request):
        body = await request.json()
        return await self._answer(request.headers.get("x-api-key"), body["q"], body["num"], "organic")

    async def serpapi(self, request):
        asked = request.query_params
        assert asked["engine"] == "google"
        return await self._answer(asked["api_key"], asked["q"], int(asked["num"]), "organic_results")

    async def _answer(self, key, query, count, name):
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(0.02)
        self._now -= 1
        self.asked.append((query, count))
        if key != KEY:
            return JSONResponse({"message": "Unauthorized."}, 403)
        if self.failures:
            self.failures -= 1
            return PlainTextResponse("bad gateway", 502)
        if self.status != 200:
            return JSONResponse({"error": "no"}, self.status)
        return JSONResponse({"searchParameters": {"q": query}} | ANSWERS.get(query, lambda name: {name: HITS})(name))


@pytest.fixture
def stand_in():
    there = StandIn()
    with live(there.app) as server:
        there.url = server.url
        yield there


@pytest.fixture(params=["serper", "serpapi"])
def web(request, stand_in, index_folder):
    settings = settings_for(index_folder, stand_in, request.param)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        yield client


def settings_for(index_folder, stand_in, provider, **more):
    more = {"web_key": KEY, "web_timeout_s": 2.0} | more
    return RetrieverSettings(index=index_folder, web_provider=provider, web_url=f"{stand_in.url}/{provider}", **more)


def search(client, queries, **more):
    return client.post("/v1/retrieve", json={"queries": queries, "method": "web", **more})


def test_pages_come_back_as_passages_in_the_order_of_the_queries(web, stand_in):
    answer = search(web, ["monet", "", "nothing", "monet's garden"], top_k=2).json()
    monet, blank, nothing, garden = answer["results"]
    first = {"id": "https://example.org/monet", "title": "Claude Monet", "text": "A painter.", "score": 1.0}
    assert {name: monet[0][name] for name in first} == first
    assert [passage["url"] for passage in monet] == ["https://example.org/monet", "https://example.org/giverny"]
    assert (blank, nothing, len(garden)) == ([], [], 2)
    assert sorted(stand_in.asked) == [("monet", 2), ("monet's garden", 2), ("nothing", 2)]
    assert answer["index"]["kind"] == "web"


def test_a_null_is_as_good_as_nothing(web):
    answer = search(web, ["monet", "null"], top_k=3).json()
    assert [[passage["title"] for passage in row] for row in answer["results"]] == [["Claude Monet", "Giverny", "Third"], []]
    assert answer["results"][0][1]["text"] == ""


def test_queries_of_a_request_are_asked_at_the_same_time_but_not_without_bound(web, stand_in):
    assert search(web, [f"query {number}" for number in range(40)]).status_code == 200
    assert 2 <= stand_in.most_at_once <= 16


def test_a_failure_that_passes_is_tried_again(web, stand_in):
    stand_in.failures = 2
    assert search(web, ["monet"]).status_code == 200


def test_one_that_stays_is_a_503_and_never_shows_the_key(web, stand_in):
    for status in (500, 429):
        stand_in.status = status
        response = search(web, ["monet"])
        assert response.status_code == 503
        assert KEY not in response.text


def test_what_nobody_will_read_is_not_asked(web, stand_in):
    """One query that fails ends its request: the others are not asked behind its back, each at a price."""
    stand_in.status = 500
    assert search(web, [f"query {number}" for number in range(400)]).status_code == 503
    asked = len(stand_in.asked)
    time.sleep(0.3)
    assert len(stand_in.asked) <= asked + 16


def test_a_key_that_is_refused_is_told(index_folder, stand_in):
    settings = settings_for(index_folder, stand_in, "serper", web_key="wrong-key")
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        response = search(client, ["monet"])
    assert response.status_code == 503
    assert "RETRIEVER_WEB_KEY" in response.json()["detail"]
    assert "wrong-key" not in response.text


def test_it_searches_no_index(web):
    assert search(web, ["monet"], filter={"source": "a"}).status_code == 422


def test_the_index_is_searched_as_before_and_names_the_web(web, client):
    body = {"queries": ["Monet"]}
    assert web.post("/v1/retrieve", json=body).json()["results"] == client.post("/v1/retrieve", json=body).json()["results"]
    described = web.get("/v1/index").json()
    assert (described["methods"], described["default_method"]) == (["dense", "web"], "dense")


def test_trainers_get_it_where_it_is_the_default(index_folder, stand_in):
    settings = settings_for(index_folder, stand_in, "serper", method="web")
    with LoopbackClient(create_app(settings, open_retriever(settings))) as client:
        answer = client.post("/retrieve", json={"queries": ["monet"], "topk": 1, "return_scores": True}).json()
        assert client.get("/v1/index").json()["default_method"] == "web"
    assert answer["result"][0][0]["document"]["title"] == "Claude Monet"


def test_it_is_off_unless_a_provider_and_a_key_are_set(client, index_folder):
    response = search(client, ["monet"])
    assert response.status_code == 422
    assert "RETRIEVER_WEB_PROVIDER" in response.json()["detail"]
    with pytest.raises(ConfigurationError, match="RETRIEVER_WEB_KEY is empty"):
        open_retriever(RetrieverSettings(index=index_folder, web_provider="serper"))
