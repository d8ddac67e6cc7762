"""`POST /v1/retrieve` and `GET /v1/index`, over a real index."""

import pytest

from parallelsearch.schemas.retrieval import MAX_QUERIES, MAX_TOP_K, IndexModel, RetrieveResponse

MONET, PISSARRO = "When was Claude Monet born?", "When was Camille Pissarro born?"


def retrieve(client, **body):
    return client.post("/v1/retrieve", json=body)


def test_each_query_gets_its_own_row_best_first(client):
    response = RetrieveResponse.model_validate(retrieve(client, queries=[MONET, PISSARRO], top_k=3).json())
    titles = [[passage.title for passage in row] for row in response.results]
    assert titles[0][0] == "Claude Monet"
    assert titles[1][0] == "Camille Pissarro"
    assert all([passage.score for passage in row] == sorted((p.score for p in row), reverse=True) for row in response.results)
    assert all(0 < passage.score <= 1.0001 for row in response.results for passage in row)


def test_repeated_and_blank_queries_keep_their_rows(client):
    results = retrieve(client, queries=[MONET, "", MONET, " "], top_k=2).json()["results"]
    assert [len(row) for row in results] == [2, 2, 2, 2]
    assert results[0] == results[2]


def test_as_many_queries_as_there_may_be_each_have_their_row(client):
    for count in (2_000, MAX_QUERIES):
        results = retrieve(client, queries=[f"query {n % 50}" for n in range(count)], top_k=1).json()["results"]
        assert [row[0]["id"] for row in results[:50]] * (count // 50) == [row[0]["id"] for row in results]


def test_no_queries_is_no_rows(client):
    assert retrieve(client, queries=[]).json()["results"] == []


def test_a_corpus_shorter_than_top_k_gives_what_there_is_and_nothing_twice(client, rows):
    (row,) = retrieve(client, queries=[MONET], top_k=MAX_TOP_K).json()["results"]
    assert sorted(passage["id"] for passage in row) == sorted(each["id"] for each in rows)


def test_what_is_served_is_described(client, rows):
    index = IndexModel.model_validate(client.get("/v1/index").json())
    assert (index.encoder, index.dimension, index.metric, index.kind) == ("minilm", 384, "inner_product", "flat")
    assert index.passages == len(rows)
    assert index.model_dump(mode="json") == retrieve(client, queries=[MONET]).json()["index"]


def test_it_is_ready_only_with_an_index_and_says_how_many_passages(client, rows):
    assert client.get("/readyz").json() == {"status": "ready", "checks": {"index": f"{len(rows)} passages"}}


def test_an_answer_says_where_its_time_went(client):
    timing = retrieve(client, queries=[MONET]).headers["server-timing"]
    assert [part.split(";")[0] for part in timing.split(", ")] == ["queue", "encode", "search", "load"]
    assert all(float(part.split("dur=")[1]) >= 0 for part in timing.split(", "))


@pytest.mark.parametrize("given", ["soon", "0", "-5", "1.5", "1e3", "9" * 400, "9" * 5_000])
def test_a_deadline_that_is_no_number_is_named(client, given):
    response = client.post("/v1/retrieve", json={"queries": [MONET]}, headers={"X-Deadline-Ms": given})
    assert response.status_code == 422
    assert "X-Deadline-Ms" in response.json()["detail"]


def test_stages_are_measured(client):
    retrieve(client, queries=["a query nobody asked before"])
    text = client.get("/metrics").text
    for name in (
        "queue_seconds",
        "encode_seconds",
        "search_seconds",
        "load_seconds",
        "batch_size",
        "queue_depth",
        "index_passages",
    ):
        assert f"parallelsearch_retriever_{name}" in text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"null", "body"),
        (b"[]", "body"),
        (b"{", "body"),
        (b"\xff\xfe", "body"),
        (b'{"queries": ' + b"[" * 100_000, "body"),
        (b"{}", "queries"),
        (b'{"queries": "one"}', "queries"),
        (b'{"queries": [1]}', "queries.0"),
        (b'{"queries": [null]}', "queries.0"),
        (b'{"queries": ["ok", "a\\u0000b"]}', "queries.1"),
        (b'{"queries": ["ok", "\\ud800"]}', "queries.1"),
        (b'{"queries": ["' + b"x" * 100_000 + b'"]}', "queries.0"),
        (b'{"queries": ["a"], "top_k": 0}', "top_k"),
        (b'{"queries": ["a"], "top_k": -1}', "top_k"),
        (b'{"queries": ["a"], "top_k": 1000000000000000000000}', "top_k"),
        (b'{"queries": ["a"], "top_k": "3"}', "top_k"),
        (b'{"queries": ["a"], "top_k": true}', "top_k"),
        (b'{"queries": ["a"], "top_k": NaN}', "top_k"),
        (b'{"queries": ["a"], "surprise": 1}', "surprise"),
        (b'{"queries": [' + b'"a",' * 10_000 + b'"a"]}', "queries"),
    ],
)
def test_bad_input_is_a_problem_that_names_the_field(client, body, field):
    response = client.post("/v1/retrieve", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert field in [fault["field"] for fault in problem["errors"]]
    assert field in problem["detail"]
    assert retrieve(client, queries=["still here"]).status_code == 200


@pytest.mark.parametrize("path", ["/v1/retrieve", "/retrieve"])
def test_a_page_that_points_its_name_here_reads_no_passages(client, path):
    refused = client.post(path, json={"queries": ["Monet"]}, headers={"host": "evil.example:8001"})
    assert refused.status_code == 403 and "RETRIEVER_ALLOWED_HOSTS" in refused.json()["detail"]
    assert "result" not in refused.text
