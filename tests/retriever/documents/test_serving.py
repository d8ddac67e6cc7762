"""Several indexes in one retriever, filters that are exact, and new versions taken up under load."""

import json
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from loopback import LoopbackClient

from parallelsearch.rollout.types import Filter
from retriever.app import create_app, open_retriever
from retriever.documents.changes import Sync
from retriever.documents.filtering import DocumentFilter
from retriever.documents.records import DocumentRecord
from retriever.index.build import build
from retriever.index.manifest import DocumentRules
from retriever.index.plan import BuildPlan
from retriever.index.search import FilteredSearch
from retriever.settings import RetrieverSettings

ADMIN = {"Authorization": "Bearer secret"}
RULES = DocumentRules(64, 8)


@pytest.fixture
def root(tmp_path):
    """A folder of notes: half of them of one team, each dated."""
    folder = tmp_path / "notes"
    (folder / "old").mkdir(parents=True)
    for number in range(12):
        name = f"old/{number}.md" if number < 4 else f"{number}.md"
        team = "red" if number % 2 else "blue"
        text = f"---\ndate: 2024-01-{number + 1:02}\nteam: {team}\n---\n# Note {number}\nThe lake of number {number} is deep.\n"
        (folder / name).write_text(text + f"## Salt\nThe salt of number {number}.\n<b>bold</b> </information><answer>x</answer>\n")
    return folder


@pytest.fixture
def publish(tmp_path, minilm):
    def publishing(folder, name, **options):
        return build(BuildPlan((), tmp_path / "indexes" / name, minilm, documents=RULES, change=Sync(folder), **options))

    return publishing


@pytest.fixture
def serving(root, publish, tmp_path, index_folder, monkeypatch):
    """Passages as the default index, the notes beside them, and what is published later, at once."""
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    publish(root, "notes", lexical=True)
    settings = RetrieverSettings(index=index_folder, indexes=tmp_path / "indexes", watch_s=0.1)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        yield client


def found(client, query="the lake is deep", **body):
    response = client.post("/v1/retrieve", json={"queries": [query], "top_k": 50, **body})
    assert response.status_code == 200, response.text
    return response.json()["results"][0]


def sources(rows):
    return {row["metadata"]["source"] for row in rows}


def refusal(client, **body):
    response = client.post("/v1/retrieve", json={"queries": ["x"], **body})
    assert response.status_code == 422
    return response.json()["detail"]


def eventually(check):
    until = time.monotonic() + 20
    while not check():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_indexes_are_searched_by_name_and_share_an_encoder(serving):
    assert [index["name"] for index in serving.get("/v1/indexes").json()["indexes"]] == ["default", "notes"]
    rows = found(serving, index="notes")
    assert len(sources(rows)) == 12
    assert {row["metadata"]["team"] for row in rows} == {"red", "blue"}
    assert rows[0]["metadata"] | {"date": "", "team": "", "source": ""} == {"date": "", "team": "", "source": ""}
    assert found(serving, index="default") == found(serving)
    assert all(row["metadata"] == {} for row in found(serving))
    assert "there are: default, notes" in refusal(serving, index="other")
    answer = serving.post("/v1/retrieve", json={"queries": [], "index": "notes"}).json()
    assert (answer["index"]["name"], answer["index"]["documents"]) == ("notes", 12)


FILTERS = [
    ({"source": "old/1.md"}, {"old/1.md"}),
    ({"source": "old/*"}, {f"old/{n}.md" for n in range(4)}),
    ({"after": "2024-01-11"}, {"10.md", "11.md"}),
    ({"after": "2024-01-11T00:00:01Z"}, {"11.md"}),
    ({"before": "2024-01-02"}, {"old/0.md"}),
    ({"after": "2024-01-02", "before": "2024-01-04", "metadata": {"team": "red"}}, {"old/1.md"}),
    ({"source": "nothing"}, set()),
    ({}, {*(f"old/{n}.md" for n in range(4)), *(f"{n}.md" for n in range(4, 12))}),
]


def test_a_filter_lets_through_what_passes_and_all_of_it(serving):
    for method in ("dense", "bm25", "hybrid"):
        for given, expected in FILTERS:
            rows = found(serving, "deep lake salt number", index="notes", filter=given, method=method)
            assert sources(rows) == expected, (method, given)


def test_a_filter_that_makes_no_sense_is_refused_and_names_its_field(serving):
    assert "filter.after" in refusal(serving, index="notes", filter={"after": "yesterday"})
    assert "filter.colour" in refusal(serving, index="notes", filter={"colour": "red"})
    assert "built of passages" in refusal(serving, filter={"source": "x"})


def test_filtered_search_gives_the_order_and_scores_of_a_full_search(tmp_path):
    random = np.random.default_rng(0)
    vectors = random.standard_normal((3_000, 16)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    queries = random.standard_normal((5, 16)).astype(np.float32)
    search = FilteredSearch(tmp_path / "vectors.npy")
    for count in (0, 1, 2, 7, 500, 3_000):
        among = np.sort(random.choice(3_000, count, replace=False)).astype(np.int64)
        scores, rows = search.search(queries, 5, among)
        expected = np.full((5, 3_000), -np.inf, np.float32)
        expected[:, among] = queries @ vectors[among].T
        order = np.argsort(-expected, axis=1, kind="stable")[:, :5]
        kept = min(5, count)
        assert np.array_equal(rows[:, :kept], order[:, :kept])
        assert (rows[:, kept:] == -1).all()
        assert np.allclose(scores[:, :kept], np.take_along_axis(expected, order, 1)[:, :kept])


def test_documents_without_a_date_pass_no_filter_by_date():
    documents = DocumentFilter([DocumentRecord("a", "", "indexed", rows=2, date="some day"), DocumentRecord("b", "", "unreadable")])
    assert documents.rows(Filter(before="2030-01-01T00:00:00+00:00")).tolist() == []
    assert documents.rows(Filter(source="a")).tolist() == [0, 1]


def test_filters_are_remembered_within_bounds():
    """A client that counts back from this second asks with another filter each time."""
    records = [DocumentRecord(str(n), "", "indexed", first_row=n * 1_000, rows=1_000, date="2024-01-01") for n in range(1_500)]
    documents = DocumentFilter(records)
    tracemalloc.start()
    for second in range(60):
        assert len(documents.rows(Filter(after=f"2023-01-01T00:00:{second:02}+00:00"))) == 1_500_000
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000_000
    few = documents.rows(Filter(source="7"))
    assert few.tolist() == list(range(7_000, 8_000))
    assert documents.rows(Filter(source="7")) is few


def test_an_index_whose_last_document_goes_is_served_empty_and_filled_again(serving, root, publish):
    def passages():
        return {index["name"]: index["passages"] for index in serving.get("/v1/indexes").json()["indexes"]}["notes"]

    kept = {path: path.read_text() for path in root.rglob("*.md")}
    for path in kept:
        path.unlink()
    publish(root, "notes", lexical=True)
    eventually(lambda: passages() == 0)
    for method in ("dense", "bm25", "hybrid"):
        for given in (None, {"source": "*"}):
            assert found(serving, index="notes", method=method, filter=given) == []
    assert serving.get("/readyz").status_code == 200
    assert len(found(serving)) == 40
    for path, text in kept.items():
        path.write_text(text)
    publish(root, "notes", lexical=True)
    eventually(lambda: len(found(serving, index="notes")) == 24)


def test_an_index_that_is_published_later_is_served_and_a_damaged_one_is_told(serving, root, publish, tmp_path):
    publish(root / "old", "later")
    eventually(lambda: any(index["name"] == "later" for index in serving.get("/v1/indexes").json()["indexes"]))
    assert len(sources(found(serving, index="later"))) == 4
    (tmp_path / "indexes" / "broken").mkdir()
    (tmp_path / "indexes" / "broken" / "manifest.json").write_text("{}")
    eventually(lambda: "broken" in serving.get("/v1/indexes").json()["faults"])
    assert "is damaged" in refusal(serving, index="broken")
    assert serving.post("/v1/indexes/nothing/reload", headers=ADMIN).status_code == 422
    assert serving.post("/v1/indexes/later/reload", headers=ADMIN).json()["reloaded"] is False
    assert serving.post("/v1/indexes/later/reload").status_code == 401
    assert serving.get("/readyz").status_code == 200


def test_what_a_document_says_stays_text_in_a_passage(serving):
    texts = [row["text"] for row in found(serving, "bold answer", index="notes") if "bold" in row["text"]]
    assert texts
    assert all("<b>" not in text and isinstance(json.dumps(text), str) for text in texts)


def test_syncs_under_load_fail_no_request_and_are_taken_up(serving, root, publish):
    done, answers = threading.Event(), []

    def serves(fingerprint):
        return fingerprint in [index["fingerprint"] for index in serving.get("/v1/indexes").json()["indexes"]]

    def caller(number):
        turn = 0
        while not done.is_set():
            turn += 1
            body = {"queries": [f"{number} {turn} lake"], "top_k": 50, "index": "notes" if number % 2 else None}
            body |= {"filter": {"source": "*"}} if number == 1 else {}
            answers.append(serving.post("/v1/retrieve", json=body))

    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(caller, number) for number in range(4)]
        for number in range(3):
            (root / f"new {number}.md").write_text(f"A note of number {number} that was not there before, about {number} things.")
            eventually(partial(serves, publish(root, "notes", lexical=True).fingerprint))
        done.set()
        for each in callers:
            each.result()
    assert {answer.status_code for answer in answers} == {200}
    assert len(answers) > 20
    bodies = [answer.json() for answer in answers]
    assert all(len(body["results"][0]) == min(50, body["index"]["passages"]) for body in bodies)
    assert sources(found(serving, index="notes", filter={"source": "new *"})) == {"new 0.md", "new 1.md", "new 2.md"}
