"""The real CPU engine with the bundled policy, as `python -m policy` starts it."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import psutil
import pytest

from parallelsearch.protocol.actions import parse_turn
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.protocol.tags import CLOSING_TAGS
from parallelsearch.rollout.types import Mode, Search

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
MODEL = "smollm2-135m-parallelsearch"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Server:
    """`python -m policy` with a log file; `family` is it and everything it started."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.log = folder / "policy.log"
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        env = os.environ | {"POLICY_PORT": str(port)} | settings
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "policy"], env=env, stdout=log, stderr=log, start_new_session=True
            )
        self.http = httpx2.Client(base_url=self.url, timeout=120, trust_env=False)

    def wait_until_ready(self, timeout_s: float = 300) -> None:
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.5)
        pytest.fail(f"not ready in {timeout_s} s: {self.log.read_text()[-3000:]}")

    def family(self) -> list[psutil.Process]:
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def end(self, sign: signal.Signals) -> list[psutil.Process]:
        """What is still alive 15 s after the signal to the server alone."""
        family = self.family()
        self.process.send_signal(sign)
        self.process.wait(timeout=60)
        return psutil.wait_procs(family, timeout=15)[1]

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("policy"))
    server.wait_until_ready()
    yield server
    server.close()


def post(server: Server, path: str, body: dict) -> httpx2.Response:
    answer = server.http.post(path, json={"model": MODEL} | body)
    assert answer.status_code == 200, answer.text
    return answer


def prompt_ids(server: Server, question: str) -> list[int]:
    message = {"role": "user", "content": build_prompt(question, Mode.PARALLEL)}
    return post(server, "/tokenize", {"messages": [message]}).json()["tokens"]


def complete(server: Server, ids: list[int], **more: object) -> dict:
    body = {"prompt": ids, "max_tokens": 200, "temperature": 0, "stop": CLOSING_TAGS, "include_stop_str_in_output": True}
    return post(server, "/v1/completions", body | {"return_token_ids": True} | more).json()["choices"][0]


def test_the_bundled_policy_decomposes_a_question(server: Server) -> None:
    choice = complete(server, prompt_ids(server, "Who is older, Claude Monet or Camille Pissarro?"))
    action = parse_turn(choice["text"], max_sub_queries=8).action
    assert isinstance(action, Search) and len(action.queries) == 2
    assert choice["text"].endswith("</search>")
    assert post(server, "/detokenize", {"tokens": choice["token_ids"]}).json()["prompt"] == choice["text"]


def test_it_says_what_it_is(server: Server) -> None:
    policy = server.http.get("/v1/policy").json()
    assert policy["model"] == MODEL
    assert (policy["device"], policy["context_length"], policy["layout"], policy["turn_tokens"]) == ("cpu", 4096, "labelled", 200)


def test_seeds_are_reproducible_and_logprobs_come_with_them(server: Server) -> None:
    ids = prompt_ids(server, "Who wrote Hamlet?")
    sample = {"temperature": 1.0, "max_tokens": 24, "logprobs": 0}
    first, again, other = (complete(server, ids, seed=seed, **sample) for seed in (7, 7, 8))
    assert first["token_ids"] == again["token_ids"] != other["token_ids"]
    assert len(first["logprobs"]["token_logprobs"]) == len(first["token_ids"])


def test_an_answer_is_capped(server: Server) -> None:
    choice = complete(server, prompt_ids(server, "Who wrote Hamlet?"), max_tokens=5)
    assert (choice["finish_reason"], len(choice["token_ids"])) == ("length", 5)


def test_ready_memory_and_prefix_cache(server: Server) -> None:
    ids = prompt_ids(server, "Which river is longer, the Rhine or the Elbe?")
    for _ in range(2):
        complete(server, ids, max_tokens=1)
    lines = server.http.get("/metrics").text.splitlines()
    hits = next(line for line in lines if line.startswith("vllm:prefix_cache_hits_total"))
    assert float(hits.rpartition(" ")[2]) > 0
    assert sum(process.memory_full_info().pss for process in server.family()) < 5e9


def test_a_client_that_hangs_up_stops_the_generation(server: Server) -> None:
    ids = prompt_ids(server, "Who wrote Hamlet?")
    body = {"model": MODEL, "prompt": ids, "max_tokens": 3000, "ignore_eos": True, "stream": True}
    with server.http.stream("POST", "/v1/completions", json=body) as answer:
        next(answer.iter_lines())
        assert running(server) == 1
    until = time.monotonic() + 10
    while running(server) and time.monotonic() < until:
        time.sleep(0.2)
    assert running(server) == 0


def running(server: Server) -> float:
    lines = server.http.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running{"))


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_server(tmp_path: Path, sign: signal.Signals) -> None:
    server = Server(tmp_path)
    try:
        server.wait_until_ready()
        assert len(server.family()) > 1
        assert server.end(sign) == []
    finally:
        server.close()
