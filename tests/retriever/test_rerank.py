"""The cross-encoder that ranks again: off unless named, per request or by default, and exactly what the model itself says."""

import numpy as np
import pytest
import torch
from loopback import LoopbackClient
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from parallelsearch.errors import ConfigurationError
from retriever.app import create_app, open_retriever
from retriever.corpus.store import CorpusStore
from retriever.encoders.cached import QueryVectors
from retriever.index.manifest import read_manifest
from retriever.index.opened import open_index
from retriever.reranking import Reranker
from retriever.searcher import Ask, Searcher, Served
from retriever.settings import RetrieverSettings


def make_model(folder, minilm, labels=1):
    torch.manual_seed(3)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(**shape, num_labels=labels, initializer_range=0.5)  # random weights, but scores that differ
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast.from_pretrained(minilm.path).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory, minilm):
    return make_model(tmp_path_factory.mktemp("cross-encoder"), minilm)


@pytest.fixture(scope="module")
def reranking(index_folder, model_folder):
    settings = RetrieverSettings(index=index_folder, reranker=model_folder, rerank_candidates=10)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        yield client


def ask(client, queries, **more):
    response = client.post("/v1/retrieve", json={"queries": queries, **more})
    assert response.status_code == 200, response.text
    return response.json()["results"]


def test_the_best_of_the_candidates_are_those_the_model_scores_highest(reranking, model_folder):
    from sentence_transformers import CrossEncoder

    queries = ["When was Claude Monet born?", "a city with canals"]
    candidates = ask(reranking, queries, top_k=10, method="dense")
    found = ask(reranking, queries, top_k=4, method="rerank")
    model = CrossEncoder(str(model_folder), device="cpu", local_files_only=True)
    for query, row, known in zip(queries, found, candidates, strict=True):
        scores = model.predict([(query, f"{passage['title']} {passage['text']}") for passage in known])
        order = np.argsort(-scores, kind="stable")[:4]
        assert [passage["id"] for passage in row] == [known[place]["id"] for place in order]
        assert [passage["score"] for passage in row] == pytest.approx(scores[order].tolist(), abs=1e-4)
        assert len(set(np.round(scores, 4).tolist())) > 5


def test_more_passages_than_candidates_are_all_scored(reranking):
    assert len(ask(reranking, ["Monet"], top_k=25, method="rerank")[0]) == 25


def test_what_is_served_names_it(reranking, client):
    assert reranking.get("/v1/index").json()["methods"] == ["dense", "rerank"]
    response = client.post("/v1/retrieve", json={"queries": ["a"], "method": "rerank"})
    assert response.status_code == 422
    assert "Set RETRIEVER_RERANKER" in response.json()["detail"]


def test_it_may_be_the_default(index_folder, model_folder, reranking):
    settings = RetrieverSettings(index=index_folder, reranker=model_folder, rerank_candidates=10, method="rerank")
    with LoopbackClient(create_app(settings, open_retriever(settings))) as client:
        assert ask(client, ["Monet"]) == ask(reranking, ["Monet"], method="rerank")
    with pytest.raises(ConfigurationError, match="RETRIEVER_METHOD is rerank, but no cross-encoder"):
        open_retriever(RetrieverSettings(index=index_folder, method="rerank"))


def test_no_candidate_gives_no_passage(index_folder, model_folder):
    corpus = CorpusStore(index_folder / read_manifest(index_folder).version)
    scores, rows = Reranker(model_folder, 5).rerank(["a", "b"], np.array([[-1, -1], [3, -1]]), corpus, 2)
    assert rows.tolist() == [[-1, -1], [3, -1]]
    assert np.isfinite(scores[1, 0]) and np.isneginf(scores[0]).all()


def test_weights_in_half_precision_are_computed_with_in_full_on_a_cpu(index_folder, model_folder, tmp_path, minilm):
    half = make_model(tmp_path, minilm)
    BertForSequenceClassification.from_pretrained(half).half().save_pretrained(half)
    corpus = CorpusStore(index_folder / read_manifest(index_folder).version)
    (as_stored,), (in_full,) = (
        Reranker(folder, 5).rerank(["a city"], np.arange(30)[None], corpus, 30)[0] for folder in (half, model_folder)
    )
    assert len(set(as_stored.tolist())) == len(set(in_full.tolist()))
    assert as_stored == pytest.approx(in_full, abs=2e-3)


def test_a_folder_that_is_no_cross_encoder_is_refused(tmp_path, minilm):
    with pytest.raises(ConfigurationError, match="holds no config"):
        Reranker(tmp_path, 5)
    with pytest.raises(ConfigurationError, match="gives 3 scores"):
        Reranker(make_model(tmp_path / "three", minilm, labels=3), 5)


def test_what_shares_its_batch_changes_no_answer(index_folder, model_folder):
    """A companion that wants more passages has more of its own scored, and of nobody else's."""
    index = open_index(index_folder)
    reranker = Reranker(model_folder, 5)
    searcher = Searcher({"": Served(index, QueryVectors(index.encoder, 10))}, reranker)
    few, many = Ask("a city with canals", "rerank", scored=5), Ask("When was Monet born?", "rerank", scored=30)
    alone, together = searcher.run([few], 3), searcher.run([few, many], 30)
    assert [passage.id for passage in together.rows[0]] == [passage.id for passage in alone.rows[0]]
    assert (len(alone.rows[0]), len(together.rows[1])) == (5, 30)
    index.close()
