"""`python -m retriever` as a process: commands, refusals, serving, ending."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from retriever_process import running_retriever


def run(*arguments, **environment):
    command = [sys.executable, "-m", "retriever", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, env={**os.environ, **environment})


@pytest.fixture
def served(index_folder):
    with running_retriever(index_folder) as running:
        yield running


def test_it_serves_until_sigterm_and_ends_well(served):
    process, client = served
    assert client.post("/retrieve", json={"query": "Claude Monet"}).json()["result"][0][0]["title"] == "Claude Monet"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in {0, -signal.SIGTERM}


def test_sigterm_under_load_answers_every_accepted_request(served):
    process, client = served

    def ask(number):
        queries = [f"request {number} query {n} about a painter of the nineteenth century" for n in range(60)]
        with httpx2.Client(base_url=client.base_url, timeout=60) as own:
            return own.post("/retrieve", json={"queries": queries, "topk": 1})

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, number) for number in range(8)]
        while "parallelsearch_retriever_queue_depth 0.0" in client.get("/metrics").text:
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        answers = [each.result() for each in asked]
    assert [answer.status_code for answer in answers] == [200] * 8
    assert [len(answer.json()["result"]) for answer in answers] == [60] * 8
    process.wait(20)


def test_a_missing_index_is_one_sentence_and_no_trace(tmp_path):
    result = run(RETRIEVER_INDEX=str(tmp_path))
    assert result.returncode == 1
    assert (
        result.stderr
        == f"retriever: {tmp_path} holds no index. Build it with: parallelsearch index build CORPUS --out {tmp_path}\n"
    )


def test_a_missing_setting_is_named():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVER_")}
    result = subprocess.run([sys.executable, "-m", "retriever"], capture_output=True, text=True, timeout=60, env=environment)
    assert result.returncode == 1
    assert "RETRIEVER_INDEX" in result.stderr


def test_inspect_shows_the_manifest_for_people_and_programs(index_folder, rows):
    assert f"{len(rows)}" in run("index", "inspect", index_folder).stdout
    manifest = json.loads(run("index", "inspect", index_folder, "--json").stdout)
    assert manifest["passages"] == len(rows)


def test_a_build_that_cannot_write_says_so_in_a_sentence(tmp_path, write_corpus, rows):
    corpus = write_corpus(rows)
    command = [sys.executable, "-m", "retriever", "index", "build", str(corpus), "--out", str(tmp_path / "index")]
    little_room = (
        f"import os, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)); os.execv({command[0]!r}, {command!r})"
    )
    result = subprocess.run([sys.executable, "-c", little_room], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert f"[index] {tmp_path / 'index'}: File too large. When that is put right," in result.stderr
    assert "Traceback" not in result.stderr


def test_build_names_the_broken_line_and_fails(tmp_path, write_corpus):
    corpus = write_corpus([b"{"])
    result = run("index", "build", corpus, "--out", tmp_path / "index")
    assert result.returncode == 1
    assert f"{corpus}, line 1: " in result.stderr
    assert "Traceback" not in result.stderr
