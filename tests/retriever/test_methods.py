"""Searching by words, by vectors and by both: per request, by default, and refused where the index has no words."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import LoopbackClient

from parallelsearch.errors import ConfigurationError
from retriever.app import create_app, open_retriever
from retriever.corpus.reading import CorpusPassage
from retriever.corpus.store import CorpusStore, CorpusWriter
from retriever.encoders.cached import QueryVectors
from retriever.index.build import build
from retriever.index.fusion import RRF_CONSTANT, fuse
from retriever.index.lexical import LexicalSearch, build_lexical
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.searcher import Ask, Searcher, Served
from retriever.settings import RetrieverSettings

ODD_WORD = {"id": "odd", "title": "Zyxgor", "text": "The Zyxgor is a brass instrument of the village band."}


@pytest.fixture(scope="module")
def lexical_folder(tmp_path_factory, rows, minilm):
    folder = tmp_path_factory.mktemp("lexical")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, ODD_WORD]))
    build(BuildPlan((folder / "corpus.jsonl",), folder / "index", minilm, lexical=True))
    return folder / "index"


@pytest.fixture(scope="module")
def lexical(lexical_folder):
    settings = RetrieverSettings(index=lexical_folder)
    with LoopbackClient(create_app(settings, open_retriever(settings))) as client:
        yield client


def titles(client, query, method, top_k=3):
    response = client.post("/v1/retrieve", json={"queries": [query], "top_k": top_k, "method": method})
    assert response.status_code == 200, response.text
    return [passage["title"] for passage in response.json()["results"][0]]


def test_words_find_what_shares_a_word_and_nothing_else(lexical):
    assert titles(lexical, "zyxgor", "bm25") == ["Zyxgor"]
    assert titles(lexical, "qqqq", "bm25") == []
    assert titles(lexical, "", "bm25") == []


def lexical_search(folder, texts):
    with CorpusWriter(folder) as writer:
        for number, text in enumerate(texts):
            writer.append(CorpusPassage(str(number), "", text))
    build_lexical(CorpusStore(folder), folder)
    return LexicalSearch(folder, len(texts))


@pytest.mark.parametrize("texts", [["\N{GRINNING FACE}", "\N{PARTY POPPER}"], ["the of a"], ["x", "the"]])
def test_a_corpus_without_a_word_is_indexed_and_nothing_is_found_in_it(tmp_path, texts):
    _, rows = lexical_search(tmp_path, texts).search(["the cat", "", "x", texts[0]], 3)
    assert (rows == -1).all()


@pytest.mark.parametrize("times", [30, 2_000])
def test_of_equal_scores_words_find_the_smaller_rows_however_many_there_are_and_are_asked_for(tmp_path, times):
    search = lexical_search(tmp_path, ["red house", "blue house", "green tree"] * times)
    among = np.arange(4, 3 * times)
    for top_k in (1, 3, 50, 100):
        _, rows = search.search(["house", "blue"], top_k)
        houses = [row for row in range(3 * times) if row % 3 < 2]
        assert rows[0][rows[0] >= 0].tolist() == houses[:top_k]
        assert rows[1][rows[1] >= 0].tolist() == list(range(1, 3 * times, 3))[:top_k]
        _, some = search.search(["house"], top_k, among)
        assert some[0][some[0] >= 0].tolist() == houses[3 : 3 + top_k]


def test_words_rank_by_score_and_then_by_row(tmp_path):
    texts = [f"lake {'deep ' * (number % 7)}{'salt ' * (number % 3)}" for number in range(900)]
    search = lexical_search(tmp_path, texts)
    every, rows = search.search(["deep salt lake"], 900)
    order = np.lexsort((rows[0], -every[0]))
    assert order.tolist() == list(range(900))
    for top_k in (1, 10, 100):
        scores, few = search.search(["deep salt lake"], top_k)
        assert few[0].tolist() == rows[0][:top_k].tolist()
        assert scores[0].tolist() == every[0][:top_k].tolist()


def test_hybrid_ranks_first_what_both_rank_first(lexical):
    assert titles(lexical, "When was Claude Monet born?", "hybrid")[0] == "Claude Monet"
    assert "Zyxgor" in titles(lexical, "zyxgor", "hybrid")
    assert len(titles(lexical, "qqqq", "hybrid", top_k=3)) == 3


def test_methods_of_one_batch_do_not_mix(lexical):
    assert titles(lexical, "zyxgor", "dense", top_k=41) != titles(lexical, "zyxgor", "bm25", top_k=41)


def test_what_is_served_names_its_methods(lexical, client):
    assert lexical.get("/v1/index").json()["methods"] == ["dense", "bm25", "hybrid"]
    assert client.get("/v1/index").json()["methods"] == ["dense"]


def test_an_index_without_words_refuses_them_by_name(client):
    response = client.post("/v1/retrieve", json={"queries": ["a"], "method": "bm25"})
    assert response.status_code == 422
    assert "method" in response.json()["detail"]
    assert client.post("/v1/retrieve", json={"queries": ["a"], "method": "psychic"}).status_code == 422


def test_the_default_method_is_a_setting_that_the_index_must_serve(lexical_folder, index_folder):
    settings = RetrieverSettings(index=lexical_folder, method="bm25")
    with LoopbackClient(create_app(settings, open_retriever(settings))) as client:
        assert client.post("/retrieve", json={"query": "qqqq"}).json()["result"] == [[]]
    with pytest.raises(ConfigurationError, match="RETRIEVER_METHOD is hybrid"):
        open_retriever(RetrieverSettings(index=index_folder, method="hybrid"))


def test_fusion_adds_reciprocal_ranks():
    scores, rows = fuse([np.array([[7, 3, -1]]), np.array([[3, 9, 7]])], 4)
    assert rows.tolist() == [[3, 7, 9, -1]]
    expected = [
        1 / (RRF_CONSTANT + 2) + 1 / (RRF_CONSTANT + 1),
        1 / (RRF_CONSTANT + 1) + 1 / (RRF_CONSTANT + 3),
        1 / (RRF_CONSTANT + 2),
    ]
    assert scores[0, :3].tolist() == pytest.approx(expected)


rankings = st.permutations([*range(6), -1, -1])


@given(rankings, rankings, st.integers(1, 8))
def test_fusion_names_each_row_once_best_first_and_never_a_missing_one(one, other, top_k):
    scores, rows = fuse([np.array([one]), np.array([other])], top_k)
    named = [row for row in rows[0].tolist() if row >= 0]
    assert len(named) == len(set(named)) == min(6, top_k)
    assert sorted(scores[0].tolist(), reverse=True) == scores[0].tolist()


def test_an_index_without_words_fails_those_who_ask_for_words_and_nobody_else(index_folder):
    """As when it was swapped in while they waited."""
    index = open_index(index_folder)
    searcher = Searcher({"": Served(index, QueryVectors(index.encoder, 10))})
    asks = [Ask("Monet"), Ask("Monet", "bm25"), Ask("Monet", "hybrid")]
    result = searcher.run(asks, 3)
    assert [len(row) for row in result.rows] == [3, 0, 0]
    assert list(result.failed) == asks[1:]
    index.close()
