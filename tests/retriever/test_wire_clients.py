"""The seven clients that must work unchanged, each as it sends and as it reads: request, parsing and what it does on a fault.

Written after the clients' public behaviour; every parser here fails where the real one would.
"""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

QUERIES = ["When was Claude Monet born?", "When was Camille Pissarro born?"]
TITLES = ["Claude Monet", "Camille Pissarro"]


def post(client, body):
    """As `requests.post(url, json=…)`: python's json, ASCII-escaped."""
    response = client.post("/retrieve", content=json.dumps(body).encode(), headers={"content-type": "application/json"})
    response.raise_for_status()
    return response.json()


def passages_to_string(hits):
    """How Search-R1 and its descendants render: contents split at the first newline, scores ignored."""
    text = ""
    for number, hit in enumerate(hits):
        content = hit["document"]["contents"]
        title, body = content.split("\n")[0], "\n".join(content.split("\n")[1:])
        text += f"Doc {number + 1}(Title: {title}) {body}\n"
    return text


@pytest.mark.parametrize("name", ["Search-R1", "ParallelSearch"])
def test_search_r1_and_parallelsearch_post_the_whole_batch_and_wait(client, name):
    results = post(client, {"queries": QUERIES * 100, "topk": 3, "return_scores": True})["result"]
    assert len(results) == 200
    for title, hits in zip(TITLES, results, strict=False):
        assert passages_to_string(hits).startswith(f'Doc 1(Title: "{title}") ')


def test_parallelsearch_posts_an_empty_list_when_nobody_searches(client):
    assert post(client, {"queries": [], "topk": 3, "return_scores": True})["result"] == []


def test_verl_reads_result_and_renders_contents_of_each_document(client):
    answer = post(client, {"queries": QUERIES, "topk": 3, "return_scores": True})
    assert "error" not in answer
    raw = answer.get("result", [])
    pretty = [passages_to_string(retrieval) for retrieval in raw]
    assert all(title in text for title, text in zip(TITLES, pretty, strict=True))
    assert sum(len(retrieval) for retrieval in raw) == 6


def test_skyrl_sends_one_string_and_reads_the_first_row(client):
    answer = post(client, {"query": QUERIES[0], "topk": 3, "return_scores": True})
    (hits,) = answer["result"]
    assert passages_to_string(hits).startswith('Doc 1(Title: "Claude Monet")')


def test_slime_asks_without_scores_and_reads_flat_documents(client):
    answer = post(client, {"queries": [QUERIES[0]], "topk": 3, "return_scores": False})
    contents = [{"document": document} for document in answer["result"][0]]
    assert passages_to_string(contents).startswith('Doc 1(Title: "Claude Monet")')


def test_asearcher_reads_contents_and_url_of_each_document(client):
    answer = post(client, {"queries": QUERIES, "topk": 5, "return_scores": False})
    found = [
        {"documents": [document["contents"] for document in row], "urls": [document["url"] for document in row]}
        for row in answer["result"]
    ]
    assert all(len(each["documents"]) == len(each["urls"]) == 5 for each in found)


def test_rllm_sends_top_k_and_reads_results(client):
    answer = post(client, {"query": QUERIES[1], "top_k": 3})
    rows = answer["results"]
    documents = rows[0] if rows and isinstance(rows[0], list) else rows
    assert [set(document) >= {"id", "contents"} for document in documents] == [True] * 3
    assert documents[0]["contents"].startswith('"Camille Pissarro"')


def test_a_client_that_writes_4xx_texts_into_the_context_never_sees_one_for_load(index_folder):
    """Sixteen callers against a queue of four: every answer is 200 or 503 with Retry-After, and 503 comes at once."""

    from loopback import LoopbackClient

    from retriever.app import create_app, open_retriever
    from retriever.settings import RetrieverSettings

    settings = RetrieverSettings(index=index_folder, max_batch=2, max_queued=4)
    seen, slowest, lock = [], [], threading.Lock()

    def caller(number):
        for turn in range(4):
            body = {"queries": [f"caller {number} turn {turn} query {n}" for n in range(3)], "topk": 1}
            started = time.perf_counter()
            response = crowded.post("/retrieve", json=body)
            with lock:
                seen.append((response.status_code, response.headers.get("retry-after")))
                if response.status_code == 503:
                    slowest.append(time.perf_counter() - started)

    with LoopbackClient(create_app(settings, open_retriever(settings))) as crowded, ThreadPoolExecutor(16) as pool:
        list(pool.map(caller, range(16)))
    assert {status for status, _ in seen} <= {200, 503}
    refused = [after for status, after in seen if status == 503]
    assert refused, "the queue never filled"
    assert all(int(after) >= 1 for after in refused)
    assert sorted(slowest)[len(slowest) // 2] < 2
