"""Vectors in Milvus (its embedded edition) behind the same service, with the same checks at start."""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from loopback import LoopbackClient

from parallelsearch.errors import ConfigurationError, IndexMismatch, UpstreamUnavailable
from retriever.app import create_app, open_retriever
from retriever.index.blocks import Blocks
from retriever.index.build import build
from retriever.index.manifest import MilvusAddress, read_manifest
from retriever.index.plan import BuildPlan
from retriever.settings import RetrieverSettings

pytestmark = pytest.mark.skipif(find_spec("milvus_lite") is None, reason="SKIPPED, NOT PASSED: milvus-lite is not installed")

QUERIES = ["When was Claude Monet born?", "a city with canals", ""]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return MilvusAddress(str(tmp_path_factory.mktemp("milvus") / "vectors.db"))


@pytest.fixture(scope="module")
def milvus_folder(tmp_path_factory, address, rows, minilm):
    folder = tmp_path_factory.mktemp("built")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = BuildPlan((folder / "corpus.jsonl",), folder / "index", minilm, "milvus", milvus=address)
    build(plan)
    return folder / "index"


def test_milvus_finds_what_the_flat_index_finds(milvus_folder, address, client, monkeypatch):
    monkeypatch.setenv("MILVUS_URI", address.uri)
    settings = RetrieverSettings(index=milvus_folder)
    body = {"queries": QUERIES, "top_k": 5}
    with LoopbackClient(create_app(settings, open_retriever(settings))) as other:
        assert other.get("/v1/index").json()["kind"] == "milvus"
        found, expected = (each.post("/v1/retrieve", json=body).json()["results"] for each in (other, client))
        everything = other.post("/v1/retrieve", json={"queries": ["x"], "top_k": 100}).json()["results"][0]
    assert [[passage["id"] for passage in row] for row in found] == [[passage["id"] for passage in row] for row in expected]
    assert found[0][0]["score"] == pytest.approx(expected[0][0]["score"], abs=1e-3)
    assert len({passage["id"] for passage in everything}) == len(everything) == read_manifest(milvus_folder).passages


def test_vectors_that_are_in_milvus_already_are_left_there(milvus_folder, address, minilm, capsys):
    from retriever.index.milvus import drop, holds

    corpus = milvus_folder.parent / "corpus.jsonl"
    again = corpus.with_name("reformatted.jsonl")
    again.write_text(corpus.read_text().replace('", "', '" , "'))
    before = read_manifest(milvus_folder)
    for source in (again, corpus):
        assert build(BuildPlan((source,), milvus_folder, minilm, "milvus", milvus=address)).fingerprint == before.fingerprint
    assert "filling the Milvus collection" not in capsys.readouterr().err
    drop(address, before.version)
    build(BuildPlan((corpus,), milvus_folder, minilm, "milvus", milvus=address))
    assert "filling the Milvus collection" in capsys.readouterr().err
    assert holds(address, before.version, before.passages)


def test_a_process_whose_environment_names_the_file_opens_it(address):
    """pymilvus reads the variable by itself when it is imported, which only a new process does."""
    script = "import os, retriever.index.milvus as milvus; print(os.environ['MILVUS_URI'], milvus.TIMEOUT_S)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "MILVUS_URI": address.uri}
    )
    assert result.stdout.split()[:1] == [address.uri], result.stderr


def test_a_milvus_that_is_not_there_is_one_sentence_and_no_trace(milvus_folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    given = {"MILVUS_URI": "http://127.0.0.1:1", "RETRIEVER_INDEX": str(milvus_folder), "RETRIEVER_PORT": port}
    command = [sys.executable, "-m", "retriever"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | given)
    assert result.returncode == 1
    assert "retriever: Milvus at http://127.0.0.1:1 does not answer" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_milvus_that_is_not_there_keeps_its_named_index_out_and_no_other(milvus_folder, index_folder, monkeypatch):
    monkeypatch.setenv("MILVUS_URI", "http://127.0.0.1:1")
    retriever = open_retriever(RetrieverSettings(index=index_folder, indexes=milvus_folder.parent))
    assert [each.name for each in retriever.indexes.indexes] == ["default"]
    assert "does not answer" in retriever.faults[milvus_folder.name]


def test_without_an_address_it_says_what_to_set(milvus_folder, minilm, tmp_path):
    with pytest.raises(ConfigurationError, match="set MILVUS_URI"):
        open_retriever(RetrieverSettings(index=milvus_folder))
    with pytest.raises(ConfigurationError, match="needs MILVUS_URI"):
        build(BuildPlan((), tmp_path / "index", minilm, "milvus"))


def test_a_milvus_that_lacks_the_collection_is_told(milvus_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MILVUS_URI", str(tmp_path / "other.db"))
    with pytest.raises(IndexMismatch, match="has no collection parallelsearch_"):
        open_retriever(RetrieverSettings(index=milvus_folder))


def unit_vectors(rows, dimension=16):
    vectors = np.random.default_rng(0).standard_normal((rows, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(address, version, vectors, folder):
    """The collection of a version over these vectors, as a build fills it, opened."""
    from retriever.index.milvus import MilvusSearch, fill

    np.save(folder / "block-0000000.npy", vectors)
    fill(address, version, Blocks(folder, len(vectors), len(vectors)), vectors.shape[1])
    return MilvusSearch(address, version)


@pytest.mark.parametrize("top_k", [1, 3, 10, 99])
def test_of_equal_passages_the_first_ones_are_found_however_many_are_asked_for(address, tmp_path, top_k):
    kinds = unit_vectors(8)
    which = np.random.default_rng(1).integers(0, len(kinds), 500)
    queries = unit_vectors(4)
    search = filled(address, "equal", kinds[which], tmp_path)
    _, rows = search.search(queries, top_k)
    search.close()
    nearness = (queries @ kinds.T)[:, which]
    expected = [sorted(range(len(which)), key=lambda row: (-near[row], row))[:top_k] for near in nearness]
    assert rows.tolist() == expected


def test_of_more_equal_passages_than_are_asked_for_at_once_few_are_the_first_of_many(address, tmp_path):
    from retriever.index.milvus import MOST_EQUAL

    search = filled(address, "alike", np.repeat(unit_vectors(1), MOST_EQUAL + 500, axis=0), tmp_path)
    few, many = (search.search(unit_vectors(2), top_k)[1] for top_k in (3, 50))
    search.close()
    assert few.tolist() == many[:, :3].tolist()


def test_a_milvus_that_stops_answering_is_unavailable_and_not_waited_for():
    import grpc

    from retriever.index.milvus import MilvusSearch

    class Silent(grpc.GenericRpcHandler):
        def service(self, call):
            def answer(request, context):
                if not call.method.endswith("/Connect"):
                    time.sleep(2)
                return b""

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Silent()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(UpstreamUnavailable, match=f"Milvus at http://127.0.0.1:{port} does not answer as it should"):
            MilvusSearch(MilvusAddress(f"http://127.0.0.1:{port}"), "any", timeout_s=0.5)
    finally:
        server.stop(0)
