"""What was taken in is indexed by whichever retriever comes next; the encoder is where this one found it."""

import os
import shutil
import time
from pathlib import Path

import pytest
from document_uploads import ADMIN, settled, upload
from live_retriever import live_retriever
from typer.testing import CliRunner

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from retriever.app import own_address
from retriever.commands import app as commands
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.manifest import read_manifest
from retriever.index.plan import BuildPlan
from retriever.settings import RetrieverSettings


def serving(index_folder, indexes, **more):
    return live_retriever(index=index_folder, indexes=indexes, ADMIN_TOKEN="secret", **more)


def documents(status):
    return [each["source"] for each in status["documents"]]


@pytest.mark.timeout(240)
def test_what_a_retriever_took_in_and_did_not_index_the_next_one_does(index_folder, tmp_path):
    with serving(index_folder, tmp_path / "indexes") as first:
        taken = upload(first, "mine", ("a.txt", b"Lake Assal is salty."), ("b.txt", b"Lake Chad is shallow."))
        assert taken.status_code == 202  # and it ends at once
    with serving(index_folder, tmp_path / "indexes") as second:
        status = settled(second, "mine")
        assert (status["work"]["state"], documents(status)) == ("done", ["a.txt", "b.txt"])
        assert second.delete("/v1/indexes/mine/documents/a.txt", headers=ADMIN).status_code == 202
    with serving(index_folder, tmp_path / "indexes") as third:
        assert documents(settled(third, "mine")) == ["b.txt"]
    with serving(index_folder, tmp_path / "indexes") as fourth:
        status = settled(fourth, "mine")
        assert (status["work"]["state"], documents(status)) == ("idle", ["b.txt"])
        assert CliRunner().invoke(commands, ["rollback", "--index", str(tmp_path / "indexes" / "mine")]).exit_code == 0
    with serving(index_folder, tmp_path / "indexes") as fifth:
        status = settled(fifth, "mine")
        assert (status["work"]["state"], documents(status)) == ("idle", ["a.txt", "b.txt"]), "a rollback stays"


@pytest.mark.timeout(240)
def test_an_encoder_that_was_moved_is_found_for_uploads_too_with_the_rules_of_the_build(tmp_path, rows, write_corpus):
    """By its first name it would get the prefixes of an E5, which the index was built with."""
    began, now = tmp_path / "my-e5-small", tmp_path / "model"
    shutil.copytree(resolve("minilm").path, began, copy_function=os.link)
    encoder = resolve(str(began))
    assert encoder.identity.rules.query_prefix == "query: "
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "first.txt").write_text("Lake Baikal is deep.")
    build(BuildPlan((write_corpus(rows[:3]),), tmp_path / "index", encoder))
    arguments = ["build", str(tmp_path / "docs"), "--out", str(tmp_path / "indexes" / "there"), "--encoder", str(began)]
    assert CliRunner().invoke(commands, arguments).exit_code == 0
    began.rename(now)
    added = ["add", str(tmp_path / "docs"), "--index", str(tmp_path / "indexes" / "there"), "--encoder", str(now)]
    assert CliRunner().invoke(commands, added).exit_code == 0
    with serving(tmp_path / "index", tmp_path / "indexes", encoder=str(now)) as client:
        assert upload(client, "new", ("a.txt", b"Lake Assal is salty.")).status_code == 202
        assert upload(client, "there", ("a.txt", b"Lake Assal is salty.")).status_code == 202
        for name, count in (("new", 1), ("there", 2)):
            status = settled(client, name)
            assert (status["work"], status["total"]) == ({"state": "done", "detail": ""}, count)
    assert read_manifest(tmp_path / "indexes" / "there").encoder.rules == encoder.identity.rules


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]"), ("localhost", "localhost")],
)
def test_the_commands_that_change_documents_are_told_an_address_that_is_one(index_folder, host, address):
    told = own_address(RetrieverSettings(index=index_folder, host=host, port=8123, ADMIN_TOKEN="secret"))
    assert RetrieverAdminClient(told["RETRIEVER_URL"], told["ADMIN_TOKEN"]).url == f"http://{address}:8123"


@pytest.mark.timeout(240)
def test_an_index_that_was_moved_with_its_uploads_takes_more(index_folder, tmp_path):
    with serving(index_folder, tmp_path / "before") as client:
        assert upload(client, "mine", ("a.txt", b"Lake Assal is salty."), ("b.txt", b"Lake Chad is shallow.")).status_code == 202
        settled(client, "mine")
    (tmp_path / "before").rename(tmp_path / "after")
    with serving(index_folder, tmp_path / "after", serve_uploads=True) as client:
        assert upload(client, "mine", ("a.txt", b"Lake Assal lies in Djibouti."), ("c.txt", b"A sea.")).status_code == 202
        status = settled(client, "mine")
        assert status["work"] == {"state": "done", "detail": ""}
        assert [(each["source"], each["uploaded"]) for each in status["documents"]] == [(f"{name}.txt", True) for name in "abc"]
        assert client.get("/v1/indexes/mine/documents/a.txt/content").text == "Lake Assal lies in Djibouti."


def test_default_means_the_default_index_in_every_route(index_folder, tmp_path, capsys):
    root = tmp_path / "indexes"
    shutil.copytree(index_folder, root / "main")
    (root / "default" / "uploads").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("Lake Assal is salty.")
    built = CliRunner().invoke(commands, ["build", str(tmp_path / "a.txt"), "--out", str(root / "default"), "--encoder", "minilm"])
    assert built.exit_code == 0
    with serving(root / "main", root, watch_s=0.05) as client:
        assert f"RETRIEVER_INDEXES: {root}: default stands for {root / 'main'}" in capsys.readouterr().err
        time.sleep(0.3)
        assert [each["name"] for each in client.get("/v1/indexes").json()["indexes"]] == ["main"]
        for name in ("default", "main"):
            status = client.get(f"/v1/indexes/{name}").json()
            assert (status["index"]["documents"], status["total"]) == (None, 0)
            assert upload(client, name, ("b.txt", b"x")).status_code == 409
            asked = client.post("/v1/retrieve", json={"queries": ["Monet"], "index": name}).json()
            assert asked["index"]["fingerprint"] == status["index"]["fingerprint"]
    assert Path(root / "default" / "manifest.json").exists()
