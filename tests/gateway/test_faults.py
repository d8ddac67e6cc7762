"""What the caller sees when something fails, with real processes that are killed and stopped."""

import json
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import psutil
import pytest
from gateway_fakes import QUESTION
from processes import UPSTREAM, Process, free_port, wait_for

pytestmark = pytest.mark.load


class Platform:
    def __init__(self, stack, valkey, settings):
        self.valkey = valkey
        self.policy, self.retriever = (self._run(stack, [sys.executable, UPSTREAM, kind]) for kind in ("policy", "retriever"))
        port = free_port()
        environment = {
            "GATEWAY_PORT": str(port),
            "POLICY_BASE_URL": f"http://127.0.0.1:{self.policy.port}/v1",
            "RETRIEVER_URL": f"http://127.0.0.1:{self.retriever.port}",
            "REDIS_URL": valkey.url,
            "GATEWAY_UPSTREAM_REFRESH_S": "0.3",
        }
        self.gateway = Process([sys.executable, "-m", "gateway"], port, **environment | settings)
        stack.callback(self.gateway.kill)
        self.url = f"http://127.0.0.1:{port}"
        wait_for(lambda: httpx2.get(f"{self.url}/readyz").status_code == 200, 30)

    @staticmethod
    def _run(stack, command):
        port = free_port()
        process = Process([*command, str(port)], port)
        stack.callback(process.kill)
        return process

    def ask(self, **body):
        body = {"question": QUESTION, "cache": "bypass", "deadline_s": 10} | body
        return httpx2.post(f"{self.url}/v1/answers", json=body, timeout=60)

    def answers_again(self):
        return self.ask().status_code == 200


@pytest.fixture
def platform(valkey):
    with ExitStack() as stack:
        yield lambda **settings: Platform(stack, valkey, settings)


def test_a_killed_retriever_is_503_and_used_again_when_back(platform):
    running = platform()
    running.retriever.kill()
    refused = running.ask()
    assert (refused.status_code, refused.json()["stop_reason"]) == (503, "retrieval_failed")
    assert int(refused.headers["retry-after"]) >= 1
    assert len(refused.json()["trajectory"]["turns"]) == 1
    wait_for(lambda: httpx2.get(f"{running.url}/readyz").status_code == 503)
    running.retriever.start()
    wait_for(running.answers_again)


def test_cached_sub_queries_still_answer_while_the_retriever_is_gone(platform):
    running = platform()
    assert running.ask(cache="use").status_code == 200
    running.retriever.kill()
    assert running.ask(cache="use").json()["usage"]["cache_hits"] == 2


def test_a_killed_policy_is_503_and_used_again_when_back(platform):
    running = platform()
    running.policy.kill()
    for _ in range(12):
        assert running.ask().status_code == 503
    running.policy.start()
    wait_for(running.answers_again)


def test_a_hung_policy_is_504_at_the_deadline(platform):
    running = platform()
    running.policy.signal(signal.SIGSTOP)
    started = time.monotonic()
    late = running.ask(deadline_s=1)
    assert (late.status_code, late.json()["stop_reason"]) == (504, "deadline")
    assert time.monotonic() - started < 3
    running.policy.signal(signal.SIGCONT)
    wait_for(running.answers_again)


def test_a_hung_retriever_is_504_at_the_deadline_with_the_turn_so_far(platform):
    running = platform()
    running.retriever.signal(signal.SIGSTOP)
    late = running.ask(deadline_s=1)
    assert late.status_code == 504
    assert len(late.json()["trajectory"]["turns"]) == 1
    running.retriever.signal(signal.SIGCONT)
    wait_for(running.answers_again)


def test_a_hung_redis_costs_little_and_no_answer(platform):
    running = platform()
    running.valkey.process.send_signal(signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert running.ask(cache="use").status_code == 200
        assert time.monotonic() - started < 2
        wait_for(lambda: httpx2.get(f"{running.url}/readyz").json()["status"] == "degraded")
    finally:
        running.valkey.process.send_signal(signal.SIGCONT)
    wait_for(lambda: httpx2.get(f"{running.url}/readyz").json()["status"] == "ready")


def test_overload_is_refused_at_once(platform):
    running = platform(GATEWAY_MAX_IN_FLIGHT="2")
    running.policy.signal(signal.SIGSTOP)
    with ThreadPoolExecutor(10) as pool:
        waiting = [pool.submit(running.ask, deadline_s=3) for _ in range(2)]
        time.sleep(0.5)
        started = time.monotonic()
        refused = list(pool.map(lambda _: running.ask(), range(8)))
        assert time.monotonic() - started < 2
        running.policy.signal(signal.SIGCONT)
        assert {response.status_code for response in refused} == {503}
        assert all(response.headers["retry-after"] == "1" for response in refused)
        assert [future.result().status_code for future in waiting] == [200, 200]


def test_half_open_connections_hold_nobody_up(platform):
    running = platform()
    stuck = []
    for start in (
        b"",
        b"POST /v1/answers HTTP/1.1\r\nhost: x\r\n",
        b"POST /v1/answers HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{",
    ):
        for _ in range(50):
            connection = socket.create_connection(("127.0.0.1", running.gateway.port))
            connection.sendall(start)
            stuck.append(connection)
    assert running.ask().status_code == 200
    for connection in stuck:
        connection.close()
    assert running.ask().status_code == 200


def test_a_stream_that_runs_is_ended_in_order_at_shut_down(platform):
    running = platform()
    running.policy.signal(signal.SIGSTOP)
    names = []

    def read():
        with httpx2.Client(timeout=30).sse(
            f"{running.url}/v1/answers", method="POST", json={"question": QUESTION, "stream": True}
        ) as source:
            names.extend(sent.event for sent in source)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.5)
    running.gateway.signal(signal.SIGTERM)
    time.sleep(0.5)
    running.policy.signal(signal.SIGCONT)
    reader.join(20)
    assert names[-1] == "done"
    assert running.gateway.process.wait(20) in {0, -signal.SIGTERM}


def test_nothing_is_left_behind_by_callers_that_hang_up(platform):
    running = platform()
    gateway = psutil.Process(running.gateway.process.pid)
    assert running.ask().status_code == 200
    before = gateway.num_fds()
    running.policy.signal(signal.SIGSTOP)
    body = json.dumps({"question": QUESTION}).encode()
    head = f"POST /v1/answers HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", running.gateway.port)) as caller:
            caller.sendall(head.encode() + body)
            time.sleep(0.01)
    running.policy.signal(signal.SIGCONT)
    in_flight = "parallelsearch_answers_in_flight 0.0"
    wait_for(lambda: in_flight in httpx2.get(f"{running.url}/metrics").text)
    wait_for(lambda: gateway.num_fds() <= before + 5)
    assert running.ask().status_code == 200
