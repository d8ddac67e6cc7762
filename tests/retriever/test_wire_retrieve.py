"""`POST /retrieve`, line by line as existing RL trainers speak it."""

import json

import pytest

QUERY = "When was Claude Monet born?"
FIELDS = {"id", "title", "text", "contents", "url"}


def retrieve(client, **body):
    response = client.post("/retrieve", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_with_scores_documents_are_wrapped(client):
    answer = retrieve(client, queries=[QUERY], topk=2, return_scores=True)
    assert set(answer) == {"result", "results"}
    (row,) = answer["result"]
    assert [set(hit) for hit in row] == [{"document", "score"}] * 2
    assert set(row[0]["document"]) == FIELDS
    assert all(type(hit["score"]) is float for hit in row)


@pytest.mark.parametrize("flags", [{}, {"return_scores": False}, {"return_score": False}, {"return_scores": None}])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_without_scores_documents_are_flat(client, flags, count):
    answer = retrieve(client, queries=[f"{QUERY} {n}" for n in range(count)], topk=3, **flags)
    assert [[set(document) for document in row] for row in answer["result"]] == [[FIELDS] * 3] * count


def test_the_same_list_stands_under_both_names(client):
    answer = retrieve(client, queries=[QUERY], return_score=True)
    assert answer["result"] == answer["results"]


def test_contents_is_the_quoted_title_a_newline_and_the_text(client):
    (row,) = retrieve(client, queries=[QUERY])["result"]
    assert all(document["contents"] == f'"{document["title"]}"\n{document["text"]}' for document in row)
    assert all(document["url"] == "" for document in row)


@pytest.mark.parametrize("name", ["topk", "top_k", "k", "top_n"])
@pytest.mark.parametrize(("asked", "given"), [(1, 1), (5, 5), (None, 3), (0, 3)])
def test_the_number_of_passages_has_four_names_and_a_default(client, name, asked, given):
    (row,) = retrieve(client, queries=[QUERY], **{name: asked})["result"]
    assert len(row) == given


def test_a_single_query_is_one_row(client):
    assert retrieve(client, query=QUERY)["result"] == retrieve(client, queries=[QUERY])["result"]


def test_an_empty_list_is_an_empty_result(client):
    assert retrieve(client, queries=[]) == {"result": [], "results": []}


def test_blank_and_untrimmed_queries_keep_their_rows_in_order(client):
    sent = [" ", QUERY, "", f"  {QUERY}\n", "\t"]
    rows = retrieve(client, queries=sent, topk=1)["result"]
    assert [len(row) for row in rows] == [1] * 5
    assert rows[1] == rows[3]


def test_two_thousand_queries_in_one_body(client):
    sent = [f"{QUERY} Variant {n % 50} {'of a long question ' * 20}" for n in range(2_000)]
    rows = retrieve(client, queries=sent, topk=3)["result"]
    assert len(rows) == 2_000
    assert rows[0] == rows[50]


def test_unknown_fields_are_ignored(client):
    assert retrieve(client, queries=[QUERY], model="e5", timeout=30)["result"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"queries": [QUERY], "query": QUERY}, "body"),
        ({"queries": QUERY}, "queries"),
        ({"query": [QUERY]}, "query"),
        ({"queries": [None]}, "queries.0"),
        ({"queries": ["a\x00b"]}, "queries.0"),
        ({"queries": ["\ud800"]}, "queries.0"),
        ({"queries": ["a"] * 10_001}, "queries"),
        ({"queries": ["a"], "topk": -1}, "topk"),
        ({"queries": ["a"], "topk": 10**9}, "topk"),
        ({"queries": ["a"], "topk": 1.5}, "topk"),
        ({"queries": ["a"], "return_scores": "yes"}, "return_scores"),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_names_the_field(client, body, field):
    response = client.post("/retrieve", content=json.dumps(body).encode())
    assert response.status_code == 422
    assert [fault["field"] for fault in response.json()["errors"]] == [field]
