"""Two requests share a row only if the retriever would answer both the same: every field of a request to it makes a row another."""

import time

import pytest
from altered import altered
from gateway_fakes import BOTH, DONE, PASSAGES, fake_policy, fake_retriever

from gateway.answer_cache import AnswerCache
from gateway.cache import IndexVersion, cache_key
from gateway.redis_link import RedisLink
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.settings import ObservationSettings, RolloutSettings
from parallelsearch.rollout.types import PolicyIdentity
from parallelsearch.schemas.answers import AnswerRequest
from parallelsearch.schemas.retrieval import FilterModel, RetrieveRequest, scope_of

MONET = "When was Claude Monet born?"
OTHER = {
    "queries": [["When was Camille Pissarro born?"], ["when was Claude Monet born?"], [MONET + "?"]],
    "top_k": [1, 2, 100],
    "method": ["dense", "bm25", "hybrid"],
    "index": ["mine", "yours"],
    "filter": [
        {"source": "a"},
        {"source": "b"},
        {"after": "2024-01-01"},
        {"before": "2024-01-01"},
        {"metadata": {"a": "1"}},
        {"metadata": {"a": "2"}},
        {"metadata": {"b": "1"}},
    ],
}
REQUESTS = [{}, *({field: value} for field, values in OTHER.items() for value in values)]


@pytest.fixture
def retriever():
    return fake_retriever(PASSAGES, named=["mine", "yours"])


@pytest.fixture
def gateway(start_gateway, retriever):
    return start_gateway(fake_policy([BOTH, DONE] * 4), retriever, upstream_refresh_s=60.0)


def searched(gateway, changed):
    response = gateway.post("/v1/search", json={"queries": [MONET], **changed})
    assert response.status_code == 200, response.text
    return response.json()["results"][0]


def test_every_field_of_a_request_to_the_retriever_is_tried():
    assert OTHER.keys() == RetrieveRequest.model_fields.keys()
    assert {name for given in OTHER["filter"] for name in given} == FilterModel.model_fields.keys()


@pytest.mark.parametrize("changed", REQUESTS, ids=str)
def test_a_request_reaches_the_retriever_as_it_was_asked(gateway, retriever, changed):
    searched(gateway, changed)
    assert retriever.state.requests[-1] == RetrieveRequest(**{"queries": [MONET], **changed})


def test_requests_that_differ_in_any_field_never_share_a_row(gateway, retriever):
    for changed in REQUESTS:
        assert not searched(gateway, changed)["cached"], changed
    for changed in REQUESTS:
        assert searched(gateway, changed)["cached"], changed
    assert len(retriever.state.requests) == len(REQUESTS)


@pytest.mark.parametrize("field", ["fingerprint", "ranking"])
def test_another_index_or_another_way_to_rank_makes_old_rows_unread(start_gateway, retriever, field):
    gateway = start_gateway(fake_policy([BOTH]), retriever, upstream_refresh_s=0.05)
    searched(gateway, {})
    assert searched(gateway, {})["cached"]
    setattr(retriever.state, field, "another")
    for _ in range(200):
        if not searched(gateway, {})["cached"]:
            break
    assert len(retriever.state.requests) == 2
    assert searched(gateway, {})["cached"]


def test_rows_of_a_retriever_that_changed_unseen_are_kept_under_what_it_says(gateway, retriever):
    searched(gateway, {})
    retriever.state.ranking = "r2"
    searched(gateway, {"queries": ["x"]})  # by whose answer the change is learnt
    assert not searched(gateway, {})["cached"]
    assert searched(gateway, {"queries": ["x"]})["cached"]


def test_keys_tell_all_requests_apart():
    keys = set()
    for changed in REQUESTS:
        asked = RetrieveRequest(**{"queries": [MONET], **changed})
        version = IndexVersion(f"f-{asked.index}", "r")
        keys.add(cache_key(asked.queries[0], asked.top_k, version, scope_of(asked.index, asked.filter, asked.method)))
    assert len(keys) == len(REQUESTS)


def test_a_method_that_the_index_lacks_is_refused_and_names_its_field(gateway):
    refusal = gateway.post("/v1/search", json={"queries": [MONET], "method": "rerank"})
    assert refusal.status_code == 422
    assert refusal.json()["errors"][0]["field"] == "method"
    assert "there are: dense, bm25, hybrid" in refusal.json()["detail"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"filter": {"source": "a.pdf"}}, "filter"),
        ({"filter": {"source": "a.pdf"}, "method": "bm25"}, "filter"),
        ({"filter": {"source": "a.pdf"}, "method": "web"}, "method"),
        ({"index": "mine", "method": "web"}, "method"),
    ],
    ids=str,
)
def test_what_the_retriever_would_refuse_is_refused_and_is_no_failed_search(start_gateway, asked, field):
    retriever = fake_retriever(PASSAGES, named=["mine"], methods=["dense", "bm25", "web"], documents=None)
    gateway = start_gateway(fake_policy([BOTH, DONE]), retriever, upstream_refresh_s=60.0)
    for path, body in (("search", {"queries": [MONET]}), ("answers", {"question": "Who is older?"})):
        refusal = gateway.post(f"/v1/{path}", json=body | asked)
        assert (refusal.status_code, refusal.json()["errors"][0]["field"]) == (422, field), path
    for empty in ({"filter": {}}, {"method": "web"}):
        assert gateway.post("/v1/search", json={"queries": [MONET]} | empty).status_code == 200


def test_a_search_of_the_web_is_paid_for_once_and_is_no_other_index(start_gateway):
    def from_the_web(asked, answer):
        if asked.get("method") == "web":
            answer["index"] |= {"name": "web", "fingerprint": "web-serper", "ranking": ""}

    retriever = fake_retriever(PASSAGES, methods=["dense", "web"])
    gateway = start_gateway(fake_policy([]), altered(retriever, "/v1/retrieve", from_the_web), upstream_refresh_s=0.05)
    methods = ["web", None]
    for number in range(6):
        for method in methods:
            found = gateway.post("/v1/search", json={"queries": [MONET], "method": method}).json()["results"][0]
            assert found["cached"] is (number > 0), (number, method)
        time.sleep(0.1)
    assert [asked.method for asked in retriever.state.requests] == methods


def test_where_the_web_is_searched_unasked_it_is_paid_for_once_and_the_index_still_can_be(start_gateway):
    def from_the_web(asked, answer):
        if asked.get("method", "web") == "web":
            answer["index"] |= {"name": "web", "fingerprint": "web-serper", "ranking": ""}

    retriever = fake_retriever(PASSAGES, named=["mine"], methods=["dense", "web"], default_method="web")
    gateway = start_gateway(fake_policy([BOTH, DONE]), altered(retriever, "/v1/retrieve", from_the_web), upstream_refresh_s=0.05)
    for number in range(6):
        for method in (None, "web", "dense"):
            found = gateway.post("/v1/search", json={"queries": [MONET], "method": method}).json()["results"][0]
            assert found["cached"] is (number > 0 or method == "web"), (number, method)
        time.sleep(0.1)
    assert [asked.method for asked in retriever.state.requests] == ["web", "dense"]
    answer = gateway.post("/v1/answers", json={"question": "Who is older?"}).json()
    assert answer["index"]["fingerprint"] == "web-serper"
    for within in ({"index": "mine"}, {"filter": {"source": "a.pdf"}}):
        assert gateway.post("/v1/search", json={"queries": [MONET]} | within).status_code == 422
        assert gateway.post("/v1/search", json={"queries": [MONET], "method": "dense"} | within).status_code == 200


def test_an_answer_is_searched_by_the_method_that_is_asked_for(gateway, retriever):
    messages = [{"role": "user", "content": "Who is older?"}]
    gateway.post("/v1/answers", json={"question": "Who is older?", "method": "hybrid"})
    gateway.post("/v1/chat/completions", json={"model": "parallelsearch", "messages": messages, "method": "bm25"})
    assert [asked.method for asked in retriever.state.requests] == ["hybrid", "bm25"]


ASKED = {"question": "Who?"}
COUNT = {
    "question": "Whom?",
    "top_k": 4,
    "max_turns": 2,
    "max_sub_queries": 3,
    "mode": "sequential",
    "model": "parallelsearch-sequential",
    "filter": {"source": "a"},
    "method": "bm25",
}
DO_NOT_COUNT = {"index": "mine", "seed": 7, "deadline_s": 5.0, "stream": True}
"""The version of the index stands for its name; the others change no answer at temperature 0."""
KEEP_OUT = {"temperature": 0.5, "cache": "bypass"}


POLICY, VERSION = PolicyIdentity("m", "1"), IndexVersion("f", "r")


def answer_key(changed=(), *, policy=POLICY, version=VERSION, **settings):
    request = AnswerRequest(**{**ASKED, **dict(changed)})
    limits = {name: getattr(request, name) for name in ("mode", "top_k", "max_turns", "max_sub_queries")}
    cache = AnswerCache(RedisLink(None, timeout_s=1), ttl_s=60)
    return cache.key(request, RolloutSettings(**limits | settings), policy, version)


def test_every_field_of_a_question_counts_or_is_known_not_to():
    assert COUNT.keys() | DO_NOT_COUNT.keys() | KEEP_OUT.keys() == AnswerRequest.model_fields.keys()
    assert len({answer_key({name: value}) for name, value in COUNT.items()} | {answer_key()}) == len(COUNT) + 1
    assert {answer_key({name: value}) for name, value in DO_NOT_COUNT.items()} == {answer_key()}
    assert {answer_key({name: value}) for name, value in KEEP_OUT.items()} == {None}


def test_an_answer_goes_by_policy_index_and_the_gateway_s_own_settings_too():
    others = [
        answer_key(policy=PolicyIdentity("m", "2")),
        answer_key(policy=PolicyIdentity("n", "1")),
        answer_key(version=IndexVersion("g", "r")),
        answer_key(version=IndexVersion("f", "s")),
        answer_key(turn_tokens=100),
        answer_key(context_tokens=1_000),
        answer_key(observation=ObservationSettings(layout=Layout.COMPACT)),
    ]
    assert len({answer_key(), *others}) == len(others) + 1
