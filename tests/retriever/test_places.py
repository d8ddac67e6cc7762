"""The folder of the named indexes: what it may be, and the names that are asked for in it."""

import os
import shutil
import time
from urllib.parse import quote

import pytest
from loopback import LoopbackClient

from parallelsearch.errors import ConfigurationError
from retriever.app import create_app, open_retriever
from retriever.index.manifest import MANIFEST_FILE, read_manifest
from retriever.settings import RetrieverSettings

ADMIN = {"Authorization": "Bearer secret"}


def odd(kind, tmp_path, index_folder):
    """A folder of indexes that holds none by a name, or is no folder."""
    place = tmp_path / "indexes"
    if kind == "a file" or kind == "below a file":
        place.write_text("x")
    elif kind == "too long":
        return tmp_path / ("x" * 300)
    elif kind == "empty":
        place.mkdir()
    elif kind == "folders without an index":
        (place / "one" / "two").mkdir(parents=True)
        (place / "three" / ".building").mkdir(parents=True)
    elif kind == "an index":
        shutil.copytree(index_folder, place)
    elif kind == "unreadable":
        place.mkdir(mode=0)
    elif kind == "a link to nothing":
        place.symlink_to(tmp_path / "gone")
    return place / "x" if kind == "below a file" else place


@pytest.mark.parametrize("kind", ["a file", "below a file", "too long", "unreadable", "an index"])
def test_what_can_hold_no_index_is_refused_before_anything_is_loaded(kind, tmp_path, index_folder, capsys):
    if kind == "unreadable" and os.geteuid() == 0:
        pytest.skip("root reads every folder")
    place = odd(kind, tmp_path, index_folder)
    with pytest.raises(ConfigurationError) as raised:
        open_retriever(RetrieverSettings(index=index_folder, indexes=place))
    wrong = "is an index itself. " if kind == "an index" else "cannot be read ("
    assert raised.value.detail.startswith(f"RETRIEVER_INDEXES: {place} {wrong}")
    assert "Name the folder in which the folders of the indexes are" in raised.value.detail
    assert "\n" not in raised.value.detail
    assert "loading" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("missing", "is not there yet."),
        ("a link to nothing", "is not there yet."),
        ("empty", "holds no index yet."),
        ("folders without an index", "holds no index yet."),
    ],
)
def test_what_holds_no_index_yet_is_said_in_the_first_line(kind, told, tmp_path, index_folder, capsys):
    place = odd(kind, tmp_path, index_folder)
    retriever = open_retriever(RetrieverSettings(index=index_folder, indexes=place))
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(f"[index] RETRIEVER_INDEXES: {place} {told}")
    assert [each.name for each in retriever.indexes.indexes] == ["default"]


@pytest.fixture
def named(tmp_path, index_folder):
    """A folder with an index `notes`, a file, an empty folder, and an index beside it that is not of it."""
    place = tmp_path / "indexes"
    shutil.copytree(index_folder, place / "notes")
    shutil.copytree(index_folder, tmp_path / "outside")
    shutil.copytree(index_folder, place / "with space")
    (place / "file").write_text("x")
    (place / "empty").mkdir()
    return place


def test_where_the_default_index_is_the_only_one_nothing_is_said(named, capsys):
    shutil.rmtree(named / "with space")
    open_retriever(RetrieverSettings(index=named / "notes", indexes=named))
    assert "RETRIEVER_INDEXES" not in capsys.readouterr().err


NO_NAMES = [
    "nope", "empty", "file", "..", ".", "../outside", "../../outside", "/etc", "notes/..", "notes/../../outside", "a\nb", "\n", " ",
    "with space", "", "x" * 65, "x" * 300, "x" * 20_000, "ünï", "😀", "\x00", "a\x00b", "NOTES", "notes ", "%2e%2e", "*",
]  # fmt: skip


def test_a_name_that_is_none_is_refused_and_reaches_no_folder(named, index_folder, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    settings = RetrieverSettings(index=index_folder, indexes=named)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        assert client.post("/v1/indexes/notes/reload", headers=ADMIN).json()["reloaded"] is False
        for name in NO_NAMES:
            answer = client.post(f"/v1/indexes/{quote(name, safe='')}/reload", headers=ADMIN)
            assert answer.status_code in {404, 405, 422}, (name, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            if name:
                asked = client.post("/v1/retrieve", json={"queries": ["Monet"], "index": name})
                assert asked.status_code == 422, (name, asked.text)
                assert {fault["field"] for fault in asked.json()["errors"]} == {"index"}
        assert [each["name"] for each in client.get("/v1/indexes").json()["indexes"]] == ["default", "notes"]
        shutil.rmtree(named / "notes")
        gone = client.post("/v1/indexes/notes/reload", headers=ADMIN)
        assert gone.status_code == 500
        assert f"{named / 'notes'} holds no index" in gone.json()["detail"]
        assert client.post("/v1/retrieve", json={"queries": ["Monet"], "index": "notes"}).status_code == 200


def faults(client):
    return client.get("/v1/indexes").json()["faults"]


def within_a_minute(happens):
    until = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_index_that_is_copied_file_by_file_is_served_when_it_is_whole(named, index_folder):
    settings = RetrieverSettings(index=index_folder, indexes=named, watch_s=0.1)
    version = read_manifest(index_folder).version
    with LoopbackClient(create_app(settings, open_retriever(settings))) as client:
        (named / "copied" / version).mkdir(parents=True)
        shutil.copy(index_folder / MANIFEST_FILE, named / "copied")
        within_a_minute(lambda: "copied" in faults(client))
        for path in (index_folder / version).iterdir():
            shutil.copy(path, named / "copied" / version)
        within_a_minute(lambda: not faults(client))
        assert client.post("/v1/retrieve", json={"queries": ["Monet"], "index": "copied"}).status_code == 200


@pytest.mark.parametrize("watch_s", [0, 0.1])
def test_the_fault_of_an_index_that_is_gone_is_told_no_more(named, index_folder, watch_s, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    (named / "notes" / MANIFEST_FILE).write_text("{")
    settings = RetrieverSettings(index=index_folder, indexes=named, watch_s=watch_s)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        assert "is damaged" in faults(client)["notes"]
        shutil.rmtree(named / "notes")
        if watch_s:
            within_a_minute(lambda: not faults(client))
        else:
            assert "damaged" not in client.post("/v1/indexes/notes/reload", headers=ADMIN).json()["detail"]
        assert faults(client) == {}


def test_odd_things_in_the_place_of_uploads_keep_nothing_from_starting(named, index_folder, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    (named / "empty" / "uploads").touch()
    (named / "notes" / "uploads").symlink_to("nowhere")
    (named / "looping").mkdir()
    (named / "looping" / "uploads").symlink_to("uploads")
    settings = RetrieverSettings(index=index_folder, indexes=named)
    with LoopbackClient(create_app(settings, open_retriever(settings))) as client:
        assert client.get("/readyz").status_code == 200
