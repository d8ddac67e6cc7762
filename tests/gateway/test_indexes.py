"""Named indexes and filters through the gateway: searched where it is said, cached apart, cited by file and page."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx2
import pytest
from fastapi import Request, Response
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

from gateway.auth import new_key

MONET = "When was Claude Monet born?"


@pytest.fixture
def retriever():
    return fake_retriever(PASSAGES, named=["mine"])


@pytest.fixture
def gateway(start_gateway, retriever):
    return start_gateway(fake_policy([BOTH, DONE] * 4), retriever)


def searched(gateway, **body):
    response = gateway.post("/v1/search", json={"queries": [MONET], **body})
    assert response.status_code == 200, response.text
    return response.json()["results"][0]


def test_an_answer_is_searched_in_the_named_index_and_cited_by_file_and_page(gateway, retriever):
    given = {"source": "*.pdf", "after": "2024-01-01"}
    trajectory = gateway.post("/v1/answers", json={"question": QUESTION, "index": "mine", "filter": given}).json()
    assert trajectory["answer"].strip() == "Camille Pissarro"
    assert retriever.state.scopes == [("mine", {"source": "*.pdf", "after": "2024-01-01T00:00:00+00:00"})]
    assert trajectory["index"]["fingerprint"] == "f1mine"
    first = trajectory["citations"][0]
    assert (first["source"], first["page"], first["section"]) == ("monet-1.pdf", 2, "Life")
    assert first["url"] == "https://example.org/monet-1.pdf#page=2"
    assert trajectory["turns"][0]["observation"][0]["passages"][0]["metadata"]["page"] == 2


def test_indexes_and_filters_are_cached_apart(gateway, retriever):
    scopes = [{}, {"index": "mine"}, {"index": "mine", "filter": {"source": "a"}}, {"index": "mine", "filter": {"source": "b"}}]
    for scope in scopes:
        assert not searched(gateway, **scope)["cached"]
        again = searched(gateway, **scope)
        assert again["cached"]
        assert bool(again["passages"][0]["metadata"]) is ("index" in scope)
    assert len(retriever.state.scopes) == len(scopes)
    assert searched(gateway, index="default")["cached"]
    assert searched(gateway, index="f1mine")["cached"]


def test_an_index_that_is_published_later_is_found_and_one_that_is_not_is_named(gateway, retriever):
    refusal = gateway.post("/v1/search", json={"queries": ["x"], "index": "later"})
    assert refusal.status_code == 422
    assert "there are: default, mine" in refusal.json()["detail"]
    assert refusal.json()["errors"][0]["field"] == "index"
    retriever.state.named.append("later")
    assert searched(gateway, index="later")["passages"]


@pytest.mark.parametrize("fault", ["gone", "hangs"])
def test_an_index_that_nobody_can_tell_of_is_no_fault_of_the_request(start_gateway, retriever, fault):
    state = {"fails": False}

    async def failing(scope, receive, send):
        if not state["fails"]:
            await retriever(scope, receive, send)
        elif fault == "hangs":
            await anyio.sleep_forever()
        else:
            raise httpx2.ConnectError("refused")

    gateway = start_gateway(fake_policy([]), failing, upstream_refresh_s=60)
    state["fails"] = True
    for path, body in (("/v1/answers", {"question": QUESTION, "deadline_s": 3}), ("/v1/search", {"queries": [MONET]})):
        started = time.monotonic()
        refused = gateway.post(path, json=body | {"index": "later"})
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:parallelsearch:problem:upstream-unavailable")
        assert "retry-after" in refused.headers
        assert time.monotonic() - started < 5
    model = {"model": "parallelsearch:later", "messages": [{"role": "user", "content": QUESTION}]}
    assert gateway.post("/v1/chat/completions", json=model).status_code == 503


def test_requests_for_an_index_that_is_not_there_ask_the_retriever_together(start_live):
    asked, inner = [], fake_retriever(PASSAGES, named=["mine"])

    async def slow(scope, receive, send):
        if scope["path"] == "/v1/indexes":
            asked.append(scope["path"])
            await anyio.sleep(0.5 if len(asked) > 1 else 0)
        await inner(scope, receive, send)

    gateway = start_live(fake_policy([DONE]), slow, upstream_refresh_s=60)
    with ThreadPoolExecutor(20) as pool:
        body = {"queries": ["x"], "index": "none"}
        answers = list(pool.map(lambda _: httpx2.post(f"{gateway.url}/v1/search", json=body), range(20)))
    assert {answer.status_code for answer in answers} == {422}
    assert len(asked) <= 4


def test_openai_clients_name_an_index_in_the_model_or_beside_it(gateway, retriever):
    names = [card["id"] for card in gateway.get("/v1/models").json()["data"]]
    assert names == ["parallelsearch", "parallelsearch-sequential", "parallelsearch:mine", "parallelsearch-sequential:mine"]
    messages = [{"role": "user", "content": QUESTION}]
    for body in ({"model": "parallelsearch:mine"}, {"model": "parallelsearch", "index": "mine", "filter": {"source": "x"}}):
        answer = gateway.post("/v1/chat/completions", json={"messages": messages, **body}).json()
        assert answer["parallelsearch"]["citations"][0]["source"] == "monet-1.pdf"
    assert [index for index, _ in retriever.state.scopes] == ["mine", "mine"]
    refusal = gateway.post("/v1/chat/completions", json={"messages": messages, "model": "parallelsearch:other"})
    assert refusal.status_code == 422
    assert "there are: default, mine" in refusal.json()["error"]["message"]


def test_a_filter_that_makes_no_sense_is_refused_and_names_its_field(gateway):
    refusal = gateway.post("/v1/answers", json={"question": QUESTION, "filter": {"after": "yesterday"}})
    assert refusal.status_code == 422
    assert refusal.json()["errors"][0]["field"] == "filter.after"


def test_an_original_passes_with_what_keeps_a_browser_from_showing_it_and_needs_a_key(start_live, tmp_path):
    retriever = fake_retriever(PASSAGES, named=["mine"])
    keep = {
        "content-disposition": 'attachment; filename="a b.html"',
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }

    @retriever.get("/v1/indexes/{name}/documents/{document:path}/content")
    async def content(name: str, document: str):
        return Response(f"{name} {document}", headers=keep, media_type="text/plain")

    token, key = new_key("reader")
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([key.model_dump()]))
    with httpx2.Client(base_url=start_live(fake_policy([]), retriever, api_keys_file=keys).url, timeout=30) as gateway:
        path = "/v1/indexes/mine/documents/a%20b.html/content"
        assert gateway.get(path).status_code == 401
        response = gateway.get(path, headers={"authorization": f"Bearer {token}"})
        assert (response.status_code, response.text) == (200, "mine a b.html")
        assert {name: response.headers[name] for name in keep} == keep


def test_uploads_pass_through_with_token_and_body_up_to_their_own_limit(start_live):
    retriever = fake_retriever(PASSAGES, named=["mine"])
    seen = []

    @retriever.post("/v1/indexes/{name}/documents", status_code=202)
    async def upload(name: str, request: Request):
        seen.append((name, request.headers["authorization"], request.headers["content-type"], len(await request.body())))
        return {"name": name}

    headers = {"authorization": "Bearer admin"}
    with httpx2.Client(base_url=start_live(fake_policy([]), retriever, max_upload_bytes=1_000_000).url, timeout=30) as gateway:
        response = gateway.post("/v1/indexes/mine/documents", files={"files": ("a.txt", b"x" * 600_000)}, headers=headers)
        assert (response.status_code, response.json()) == (202, {"name": "mine"})
        (name, token, kind, size), *_ = seen
        assert (name, token, kind.split(";")[0], size > 600_000) == ("mine", "Bearer admin", "multipart/form-data", True)
        large = {"files": ("a.txt", b"x" * 1_100_000)}
        assert gateway.post("/v1/indexes/mine/documents", files=large, headers=headers).status_code == 413
        assert len(seen) == 1
        assert gateway.post("/v1/search", content=b"x" * 600_000).status_code == 413
        assert gateway.get("/v1/indexes").json()["indexes"][1]["name"] == "mine"
        assert gateway.get("/v1/indexes/mine/%2e%2e/x").status_code == 404
