"""Streams whose reader loses its connection, is too slow, or is somebody else."""

import asyncio
import re
import time
from contextlib import aclosing

import httpx2
import pytest
from cutting_proxy import cutting_proxy
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever
from streams import BODY, endless_policy, request_sent, slow_policy, wait_for

from gateway.keys import add_key
from gateway.resuming import MAX_OVER, MAX_REMEMBERED, AnswerStreams
from parallelsearch.clients.answers import AnswersClient, GatewayProblem
from parallelsearch.errors import Gone, NotFound, UpstreamUnavailable
from parallelsearch.rollout.types import StopReason
from parallelsearch.schemas.answers import AnswerRequest, TrajectoryModel
from parallelsearch.schemas.events import EVENT, Done, ReasoningDelta


def read(gateway, method, path, *, stop_after=None, headers=None, **options):
    """What is sent, as (id, event), until the end or until so many came, when the reader leaves."""
    found = []
    client = httpx2.Client(base_url=gateway.url, headers=headers or {}, timeout=20)
    with client, client.sse(path, method=method, max_event_size=64 << 20, **options) as source:
        assert source.response.status_code == 200, source.response.read()
        for sent in source:
            found.append((int(sent.id), EVENT.validate_json(sent.data)))
            if len(found) == stop_after:
                break
    return found


def ask(gateway, **options):
    return read(gateway, "POST", "/v1/answers", json=BODY, **options)


def go_on(gateway, answer_id, last, **options):
    return read(gateway, "GET", f"/v1/answers/{answer_id}/events", headers={"last-event-id": str(last)}, **options)


def problem(gateway, answer_id, headers):
    answer = httpx2.get(f"{gateway.url}/v1/answers/{answer_id}/events", headers=headers)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()


def test_events_are_numbered_and_each_is_followed_by_what_came_after_it(start_live):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES))
    whole = ask(gateway)
    answer_id = whole[0][1].id
    assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
    for last in range(len(whole)):
        assert go_on(gateway, answer_id, last) == whole[last:]
    again = httpx2.get(f"{gateway.url}/v1/answers/{answer_id}/events", headers={"last-event-id": str(len(whole))})
    assert (again.status_code, again.content) == (204, b"")


@pytest.mark.parametrize("read_before", [1, 2, 3])
def test_a_rollout_goes_on_while_its_reader_is_gone(start_live, read_before):
    gateway = start_live(slow_policy(pause_s=0.4), fake_retriever(PASSAGES))
    first = ask(gateway, stop_after=read_before)
    time.sleep(0.1)
    events = [event for _, event in first + go_on(gateway, first[0][1].id, first[-1][0])]
    assert isinstance(events[-1], Done)
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert reasoning == events[-1].turns[0].reasoning
    assert len([event for event in events if event.event == "turn.started"]) == 1


def test_after_the_grace_it_has_ended_and_is_said_to_be_gone(start_live):
    policy = endless_policy()
    gateway = start_live(policy, fake_retriever(PASSAGES), stream_grace_s=0.5)
    answer_id = ask(gateway, stop_after=2)[0][1].id
    assert policy.state.open == 1
    assert len(go_on(gateway, answer_id, 2, stop_after=1)) == 1
    wait_for(lambda: policy.state.open == 0)
    status, body = problem(gateway, answer_id, {"last-event-id": "2"})
    assert (status, body["type"].rpartition(":")[2]) == (410, "gone")


def test_a_reader_who_comes_back_before_the_grace_is_over_keeps_it(start_live):
    policy = endless_policy()
    gateway = start_live(policy, fake_retriever(PASSAGES), stream_grace_s=0.4)
    answer_id = ask(gateway, stop_after=2)[0][1].id
    with request_sent(gateway, f"/v1/answers/{answer_id}/events", {}, method="GET") as reader:
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            reader.recv(65_536)
        assert policy.state.open == 1
    wait_for(lambda: policy.state.open == 0)


@pytest.mark.parametrize(("last", "field"), [("x", "last-event-id"), ("-1", "last-event-id"), ("10000", "last-event-id")])
def test_what_is_no_place_in_the_stream_is_refused(start_live, last, field):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES))
    answer_id = ask(gateway)[0][1].id
    status, body = problem(gateway, answer_id, {"last-event-id": last})
    assert status == 422
    assert field in body["errors"][0]["field"]


def test_a_stream_is_its_own_key_s_alone(start_live, tmp_path):
    mine, other = (add_key(name, tmp_path / "keys.json") for name in ("mine", "other"))
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), api_keys_file=tmp_path / "keys.json")
    whole = ask(gateway, headers={"authorization": f"Bearer {mine}"})
    answer_id = whole[0][1].id
    for key, expected in ((other, 404), ("none", 401)):
        assert problem(gateway, answer_id, {"authorization": f"Bearer {key}"})[0] == expected
    assert problem(gateway, "never", {"authorization": f"Bearer {mine}"})[0] == 404
    mine_again = {"authorization": f"Bearer {mine}", "last-event-id": "1"}
    assert read(gateway, "GET", f"/v1/answers/{answer_id}/events", headers=mine_again) == whole[1:]


def status(gateway, key):
    with httpx2.stream("POST", f"{gateway.url}/v1/answers", json=BODY, headers=key) as response:
        return response.status_code


def test_whoever_leaves_a_stream_has_its_place_taken_until_the_rollout_ends(start_live, tmp_path):
    (tmp_path / "keys.json").write_text("[]")
    key = {"authorization": f"Bearer {add_key('mine', tmp_path / 'keys.json')}"}
    limits = {"api_keys_file": tmp_path / "keys.json", "key_concurrent": 2, "stream_grace_s": 1.5}
    policy = endless_policy()
    gateway = start_live(policy, fake_retriever(PASSAGES), **limits)
    left = [ask(gateway, stop_after=2, headers=key) for _ in range(2)]
    assert (status(gateway, key), policy.state.open) == (429, 2)
    answer_id, last = left[0][0][1].id, left[0][-1][0]
    for _ in range(2):  # it is the reader's own place that it comes back to
        assert len(read(gateway, "GET", f"/v1/answers/{answer_id}/events", headers=key, stop_after=last)) == last
        assert status(gateway, key) == 429
    wait_for(lambda: policy.state.open == 0)
    for _ in range(2):
        assert len(ask(gateway, stop_after=1, headers=key)) == 1
    wait_for(lambda: policy.state.open == 0)
    with request_sent(gateway, "/v1/answers", BODY, headers=key), request_sent(gateway, "/v1/answers", BODY, headers=key):
        wait_for(lambda: policy.state.open == 2)
        assert httpx2.get(f"{gateway.url}/v1/answers/{answer_id}/events", headers=key).status_code == 410
        assert httpx2.post(f"{gateway.url}/v1/search", json={"queries": ["x"]}, headers=key).status_code == 429
    wait_for(lambda: policy.state.open == 0)
    assert httpx2.post(f"{gateway.url}/v1/search", json={"queries": ["x"]}, headers=key).status_code == 200


WIDE = {query: [(str(number), query, "word " * 180_000) for number in range(3)] for query in PASSAGES}


def test_an_answer_is_not_held_up_by_a_reader_that_does_not_read(start_live):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(WIDE))
    with request_sent(gateway, "/v1/answers", BODY) as reader:
        answered = 'parallelsearch_answers_total{mode="parallel",stop_reason="answered"}'
        before = counted(gateway, answered)
        wait_for(lambda: counted(gateway, answered) > before, timeout_s=20)
        reader.settimeout(20)
        received = b""
        while b"event: done" not in received[-8_000_000:] or not received.endswith(b"0\r\n\r\n"):
            received += reader.recv(4_000_000)
    assert received.count(b"event: search.result") == 2


def test_who_was_cut_off_for_reading_nothing_gets_the_rest_later(start_live):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(WIDE), stream_write_timeout_s=0.3)
    ended = 'parallelsearch_http_requests_total{method="POST",path="/v1/answers"'
    before = counted(gateway, ended)
    with request_sent(gateway, "/v1/answers", BODY) as reader:
        wait_for(lambda: counted(gateway, ended) > before, timeout_s=30)
        reader.settimeout(10)
        received = b""
        while piece := reader.recv(1_000_000):
            received += piece
    assert b"event: done" not in received
    answer_id = received.partition(b'"id":"')[2].partition(b'"')[0].decode()
    broken_off = int(re.findall(rb"^id: (\d+)\n", received, re.MULTILINE)[-1])
    rest = go_on(gateway, answer_id, broken_off - 1)
    assert rest[0][0] == broken_off
    assert [number for number, _ in rest] == list(range(broken_off, broken_off + len(rest)))
    assert isinstance(rest[-1][1], Done)


def counted(gateway, name):
    lines = httpx2.get(f"{gateway.url}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def streamed(port):
    async def main():
        client = AnswersClient(f"http://127.0.0.1:{port}")
        try:
            async with aclosing(client.stream(AnswerRequest(question=QUESTION))) as stream:
                return [event async for event in stream]
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("cuts", [(900,), (1_000, 700), (1_400, 350, 20, 2_500), (2_600, 0)])
def test_the_client_goes_on_by_itself_and_misses_and_repeats_nothing(start_live, cuts):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES))
    with cutting_proxy(gateway.port, cuts) as port:
        events = streamed(port)
    done = events[-1]
    assert isinstance(done, Done)
    for turn in done.turns:
        assert "".join(e.text for e in events if isinstance(e, ReasoningDelta) and e.turn == turn.index) == turn.reasoning
    assert [event.event for event in events if "delta" not in event.event] == [
        *["turn.started", "search.started", "search.result", "search.result", "turn.started", "done"]
    ]


def test_the_client_gives_up_in_the_end(start_live):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES))
    with cutting_proxy(gateway.port, (900, *[0] * 20)) as port, pytest.raises(UpstreamUnavailable):
        streamed(port)


def test_the_client_says_that_a_stream_is_gone(start_live):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), stream_grace_s=0)
    with cutting_proxy(gateway.port, (900,)) as port, pytest.raises(GatewayProblem) as raised:
        streamed(port)
    assert raised.value.answered == 410


def test_what_is_held_is_bounded():
    async def answered(_):
        return TrajectoryModel(id="x", question="q", stop_reason=StopReason.ANSWERED)

    async def scenario():
        streams = AnswerStreams(grace_s=60)
        for number in range(MAX_OVER + MAX_REMEMBERED + 100):
            stream = streams.start(str(number), "me", answered)
            async with aclosing(stream.events()) as events:
                assert [numbered.event.event async for numbered in events] == ["done"]
        oldest, newest = MAX_OVER + MAX_REMEMBERED + 99 - MAX_OVER, MAX_OVER + MAX_REMEMBERED + 99
        assert streams.find(str(newest), "me").log.last == 1
        with pytest.raises(Gone):
            streams.find(str(oldest), "me")
        with pytest.raises(NotFound):
            streams.find("0", "me")
        await streams.close()
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1
