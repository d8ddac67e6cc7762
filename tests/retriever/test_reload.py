"""A new index under load, and the end of the process under load: no request fails."""

import json
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from loopback import LoopbackClient
from retriever_process import running_retriever

from retriever.app import create_app, open_retriever
from retriever.index.build import build
from retriever.index.manifest import read_manifest
from retriever.index.plan import BuildPlan
from retriever.settings import RetrieverSettings

ADMIN = {"Authorization": "Bearer secret"}


@pytest.fixture
def rebuild(tmp_path, rows, minilm):
    """Publishes an index of so many passages, always in the same folder."""

    def publish(count, **options):
        corpus = tmp_path / f"{count}.jsonl"
        corpus.write_text("".join(json.dumps(row) + "\n" for row in rows[:count]))
        build(BuildPlan((corpus,), tmp_path / "index", minilm, **options))
        return tmp_path / "index"

    return publish


@pytest.fixture
def serving(rebuild, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    settings = RetrieverSettings(index=rebuild(6))
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        yield client


def test_a_new_index_is_served_when_asked_for(serving, rebuild):
    assert serving.post("/v1/index/reload", headers=ADMIN).json()["reloaded"] is False
    rebuild(9)
    assert serving.get("/v1/index").json()["passages"] == 6
    answer = serving.post("/v1/index/reload", headers=ADMIN).json()
    assert (answer["reloaded"], answer["index"]["passages"]) == (True, 9)
    response = serving.post("/v1/retrieve", json={"queries": ["Claude Monet"], "top_k": 50}).json()
    assert len(response["results"][0]) == 9
    assert response["index"] == answer["index"]


def test_reloading_needs_the_admin_token(serving):
    assert serving.post("/v1/index/reload").status_code == 401
    assert serving.post("/v1/index/reload", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_a_damaged_new_index_is_told_and_the_old_one_stays(serving, rebuild):
    folder = rebuild(9)
    path = folder / read_manifest(folder).version / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    response = serving.post("/v1/index/reload", headers=ADMIN)
    assert response.status_code == 500
    assert "vectors.npy" in response.json()["detail"]
    assert len(serving.post("/v1/retrieve", json={"queries": ["Monet"], "top_k": 50}).json()["results"][0]) == 6


def test_an_index_that_lacks_the_default_method_is_refused_and_the_old_one_stays(rebuild, monkeypatch):
    """Trainers name no method: each of their requests would be refused, and some read a refusal to the model."""
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    settings = RetrieverSettings(index=rebuild(6, lexical=True), method="bm25")
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        rebuild(9)
        response = client.post("/v1/index/reload", headers=ADMIN)
        assert response.status_code == 500
        assert "RETRIEVER_METHOD is bm25" in response.json()["detail"]
        assert client.post("/retrieve", json={"queries": ["Monet"]}).status_code == 200
        assert client.get("/v1/index").json()["passages"] == 6


def test_a_fault_is_told_until_what_is_published_is_served_again(rebuild, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    folder = rebuild(6)
    good = (folder / "manifest.json").read_bytes()
    settings = RetrieverSettings(index=folder, watch_s=0.05)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        for again in (lambda: publish(folder, good), lambda: rebuild(12)):  # what is served already, and what is new
            publish(folder, b"{}")
            eventually(lambda: list(client.get("/v1/indexes").json()["faults"]) == ["default"])
            again()
            eventually(lambda: client.get("/v1/indexes").json()["faults"] == {})
        eventually(lambda: client.get("/v1/index").json()["passages"] == 12)


def publish(folder, manifest):
    """In one step, as a build does."""
    (folder / "new.json").write_bytes(manifest)
    (folder / "new.json").replace(folder / "manifest.json")


def eventually(check):
    until = time.monotonic() + 20
    while not check():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_swapping_back_and_forth_under_load_fails_no_request_and_mixes_no_indexes(serving, rebuild):
    done, answers = threading.Event(), []

    def caller(number):
        turn = 0
        while not done.is_set():
            turn += 1
            body = {"queries": [f"{number} {turn} {query}" for query in range(5)], "top_k": 50}
            answers.append(serving.post("/v1/retrieve", json=body))

    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(caller, number) for number in range(4)]
        for count in (9, 6, 12):
            rebuild(count)
            assert serving.post("/v1/index/reload", headers=ADMIN).json()["reloaded"] is True
        done.set()
        for each in callers:
            each.result()
    assert {answer.status_code for answer in answers} == {200}
    bodies = [answer.json() for answer in answers]
    assert {len(row) for body in bodies for row in body["results"]} <= {6, 9, 12}
    assert all({len(row) for row in body["results"]} == {body["index"]["passages"]} for body in bodies)
    assert bodies[-1]["index"]["passages"] == 12


def start_build(corpus, out):
    command = [sys.executable, "-m", "retriever", "index", "build", str(corpus), "--out", str(out), "--encoder", "minilm"]
    return subprocess.Popen([*command, "--block-passages", "4"], stderr=subprocess.DEVNULL)


def served_passages(client):
    return len(client.post("/v1/retrieve", json={"queries": ["Monet"], "top_k": 50}).json()["results"][0])


@pytest.mark.e2e  # half a minute
@pytest.mark.timeout(240)
def test_a_killed_build_and_a_killed_reload_leave_an_index_that_is_served(rebuild, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    folder = rebuild(6)
    corpus = tmp_path / "all.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with running_retriever(folder) as (process, client):
        building = start_build(corpus, folder)
        until = time.monotonic() + 100
        while not list(folder.glob(".building/block-*.npy")) and building.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        building.kill()
        assert building.wait() == -signal.SIGKILL
        assert client.post("/v1/index/reload", headers=ADMIN).json()["reloaded"] is False
        assert served_passages(client) == 6

        rebuild(9)
        with ThreadPoolExecutor(1) as pool:
            reloading = pool.submit(client.post, "/v1/index/reload", headers=ADMIN)
            time.sleep(0.01)
            process.kill()
            assert process.wait() == -signal.SIGKILL
            reloading.exception(30)
    with running_retriever(folder) as (_, client):
        assert served_passages(client) == 9
