from types import SimpleNamespace

import pytest

from retriever.ranking import WHAT_COUNTS, ranking_of
from retriever.settings import RetrieverSettings
from servicekit.settings import ServiceSettings

CHANGED = {
    "method": "bm25",
    "precision": "float32",
    "encoder_device": "cuda",
    "search": "torch",
    "gpu_devices": "cuda:1",
    "eight_bit_candidates": 64,
    "web_provider": "serpapi",
    "web_url": "http://127.0.0.1:1/search",
}
BY_THE_CROSS_ENCODER = {"reranker", "rerank_candidates"}
DO_NOT_COUNT = {
    *("index", "indexes", "watch_s", "encoder", "milvus_uri", "milvus_token", "web_key", "web_timeout_s", "default_top_k"),
    *("eight_bit_rows", "serve_uploads", "max_body_bytes", "max_batch", "max_queued", "window_ms", "deadline_s", "cached_queries"),
}
"""The index has a fingerprint of its own, and top_k is asked for; the others decide when rows come, and not which."""


def settings(tmp_path, **changed):
    return RetrieverSettings(index=tmp_path, **changed)


def test_every_setting_counts_or_is_known_not_to():
    own = RetrieverSettings.model_fields.keys() - ServiceSettings.model_fields.keys()
    assert own == CHANGED.keys() | BY_THE_CROSS_ENCODER | DO_NOT_COUNT
    assert CHANGED.keys() == WHAT_COUNTS


@pytest.mark.parametrize("name", CHANGED)
def test_what_decides_rows_changes_the_ranking(name, tmp_path):
    assert ranking_of(settings(tmp_path, **{name: CHANGED[name]}), None) != ranking_of(settings(tmp_path), None)


def test_what_does_not_decide_rows_leaves_it(tmp_path):
    moved = settings(tmp_path / "elsewhere", port=9, max_batch=1, cached_queries=0, web_key="secret")
    assert ranking_of(moved, None) == ranking_of(settings(tmp_path), None)


def test_the_cross_encoder_s_files_and_candidates_count(tmp_path):
    with_others = [SimpleNamespace(digest=digest, candidates=number) for digest, number in (("a", 30), ("b", 30), ("a", 31))]
    assert len({ranking_of(settings(tmp_path), each) for each in (None, *with_others)}) == 4


def test_an_index_says_how_it_is_ranked(client):
    described = client.get("/v1/index").json()
    assert len(described["ranking"]) == 16
    assert client.post("/v1/retrieve", json={"queries": ["Monet"]}).json()["index"]["ranking"] == described["ranking"]
