"""What the caller sees when something fails, with real processes that are killed and stopped."""

import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import psutil
import pytest
from gateway_between import Platform
from gateway_fakes import QUESTION
from processes import wait_for

from gateway.keys import add_key

pytestmark = pytest.mark.load


@pytest.fixture
def platform(valkey):
    with ExitStack() as stack:
        yield lambda log=None, **settings: Platform(stack, valkey, settings, log=log)


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


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
        b"POST /v1/answers HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{",
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
    head = f"POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", running.gateway.port)) as caller:
            caller.sendall(head.encode() + body)
            time.sleep(0.01)
    running.policy.signal(signal.SIGCONT)
    in_flight = "parallelsearch_answers_in_flight 0.0"
    wait_for(lambda: in_flight in httpx2.get(f"{running.url}/metrics").text)
    wait_for(lambda: gateway.num_fds() <= before + 5)
    assert running.ask().status_code == 200


def test_a_killed_redis_costs_its_hits_and_is_used_again_when_back(platform):
    running = platform()
    assert running.ask(cache="use").status_code == 200
    running.valkey.kill()
    for _ in range(5):
        answered = running.ask(cache="use")
        assert (answered.status_code, answered.json()["usage"]["cache_hits"]) == (200, 0)
    ready = httpx2.get(f"{running.url}/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert running.metric("parallelsearch_cache_up") == 0
    assert running.metric('parallelsearch_cache_total{outcome="error"}') >= 1
    running.valkey.start()
    wait_for(lambda: httpx2.get(f"{running.url}/readyz").json()["status"] == "ready")
    running.ask(cache="use")
    wait_for(lambda: running.ask(cache="use").json()["usage"]["cache_hits"] == 2)


def test_one_sub_query_that_fails_leaves_the_others(platform, stack):
    running = platform()
    running.put_in_place_of(stack, running.retriever, "retriever", "failing")
    wait_for(running.answers_again)
    trajectory = running.ask().json()
    assert (trajectory["stop_reason"], trajectory["answer"]) == ("answered", "Camille Pissarro")
    rows = trajectory["turns"][0]["observation"]
    assert [(row["failed"], bool(row["passages"])) for row in rows] == [(False, True), (True, False)]


RUBBISH = [
    "",
    "\\x00\\x01\\x02\\xff",
    "SMTP ready",
    "HTTP/1.1 200 OK\\r\\n\\r\\n",
    "HTTP/1.1 200 OK\\r\\ncontent-length: 99\\r\\n\\r\\n{",
    "HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: 4\\r\\n\\r\\nnull",
    "HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nzz\\r\\n",
    "HTTP/1.1 999 Odd\\r\\ncontent-length: 2\\r\\n\\r\\n{}",
    "HTTP/1.1 302 Found\\r\\nlocation: http://127.0.0.1:1/\\r\\ncontent-length: 0\\r\\n\\r\\n",
]


@pytest.mark.parametrize("upstream", ["policy", "retriever"])
def test_an_upstream_that_answers_rubbish_is_503_and_used_again_when_it_does_not(platform, stack, upstream):
    running = platform(GATEWAY_RETRIEVER_TIMEOUT_S="2")
    process = getattr(running, upstream)
    for rubbish in RUBBISH:
        other = running.put_in_place_of(stack, process, "rubbish", rubbish)
        for stream in (False, True):
            answered = running.ask(stream=stream)
            assert answered.status_code == 503 or b"event: error" in answered.content, rubbish
        other.kill()
    process.start()
    wait_for(running.answers_again)


def test_secrets_and_questions_stay_out_of_logs_errors_metrics_and_traces(platform, tmp_path):
    log, traces, keys = tmp_path / "gateway.log", tmp_path / "traces.jsonl", tmp_path / "keys.json"
    key = add_key("mine", keys)
    secrets = [key, "policy-key-7f3a", "admin-token-91bc", "ps-wrong-key-55de", "Monet", "Pissarro"]
    running = platform(
        log,
        GATEWAY_API_KEYS_FILE=str(keys),
        POLICY_API_KEY=secrets[1],
        ADMIN_TOKEN=secrets[2],
        GATEWAY_LOG_LEVEL="DEBUG",
        TRACE_FILE=str(traces),
    )
    said = []

    def ask(token, path="/v1/answers", **body):
        answer = httpx2.post(f"{running.url}{path}", json=body, headers={"authorization": f"Bearer {token}"}, timeout=20)
        said.append(answer)
        return answer.status_code

    assert ask(key, question=QUESTION, cache="bypass") == 200
    assert ask(secrets[2], question=QUESTION, stream=True) == 200
    said.clear()  # answers say what was asked; problems must not say who asked
    assert ask(secrets[3], question=QUESTION) == 401
    assert ask(key, question=QUESTION, model="gpt") == 422
    assert ask(key, "/v1/chat/completions", model="parallelsearch", messages=[]) == 422
    running.retriever.kill()
    assert ask(key, "/v1/search", queries=[QUESTION], cache="bypass") == 503
    running.policy.kill()
    assert ask(key, question=QUESTION, deadline_s=2) == 503
    assert all(secret not in answer.text for answer in said for secret in secrets[:4])
    metrics = httpx2.get(f"{running.url}/metrics").text
    running.gateway.signal(signal.SIGTERM)
    running.gateway.process.wait(30)
    written = {"log": log.read_text(), "metrics": metrics, "traces": traces.read_text()}
    assert '"trace_id"' in written["log"]
    assert "policy POST /v1/completions" in written["traces"]
    assert [(where, secret) for where, text in written.items() for secret in secrets if secret in text] == []
