"""`python -m policy` as a process of its own, for tests with the real engine."""

from __future__ import annotations

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

from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.protocol.tags import CLOSING_TAGS
from parallelsearch.rollout.types import Mode

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


def post(server: Server, path: str, body: dict) -> httpx2.Response:
    answer = server.http.post(path, json={"model": MODEL} | body)
    assert answer.status_code == 200, answer.text
    return answer


def prompt_ids(server: Server, question: str) -> list[int]:
    message = {"role": "user", "content": build_prompt(question, Mode.PARALLEL)}
    return post(server, "/tokenize", {"messages": [message]}).json()["tokens"]


def complete(server: Server, ids: list[int], **more: object) -> httpx2.Response:
    body = {"prompt": ids, "max_tokens": 200, "temperature": 0, "stop": CLOSING_TAGS, "include_stop_str_in_output": True}
    return post(server, "/v1/completions", body | {"return_token_ids": True} | more)


def first_choice(server: Server, ids: list[int], **more: object) -> dict:
    return complete(server, ids, **more).json()["choices"][0]


def running(server: Server) -> float:
    lines = server.http.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running{"))
