import asyncio
import json
import threading
import time

import anyio
import httpx2
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever
from streams import BODY, endless_policy, request_sent, slow_policy, wait_for

from gateway.keys import add_key
from gateway.streaming import MAX_KEPT, AnswerStream, EventLog
from parallelsearch.errors import Gone
from parallelsearch.schemas.answers import TrajectoryModel
from parallelsearch.schemas.events import EVENT, AnswerDelta, Done, Failed, ReasoningDelta, TurnStarted


def ask(gateway, **body):
    """All events of one answer, read as they come."""
    events = []
    with httpx2.Client().sse(f"{gateway.url}/v1/answers", method="POST", json=BODY | body) as source:
        assert source.response.headers["cache-control"] == "no-store"
        for sent in source:
            assert json.loads(sent.data)["event"] == sent.event
            events.append(EVENT.validate_json(sent.data))
    return events


def names(events):
    """The events' names, deltas in a row as one."""
    found = [event.event for event in events]
    return [name for position, name in enumerate(found) if position == 0 or name != found[position - 1] or name == "search.result"]


def text(events, kind, turn):
    return "".join(event.text for event in events if isinstance(event, kind) and event.turn == turn)


def test_events_tell_the_rollout_in_order(start_live):
    events = ask(start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES)))
    assert names(events) == [
        *["turn.started", "reasoning.delta", "search.started", "search.result", "search.result"],
        *["turn.started", "reasoning.delta", "answer.delta", "done"],
    ]
    assert text(events, ReasoningDelta, 0) == "both"
    assert text(events, AnswerDelta, 1) == "Camille Pissarro"
    started = next(event for event in events if event.event == "search.started")
    assert started.queries == ["When was Claude Monet born?", "When was Camille Pissarro born?"]
    landed = [event for event in events if event.event == "search.result"]
    assert {(event.index, event.query) for event in landed} == set(enumerate(started.queries))
    assert landed[0].passages[0].title == "Claude Monet"


def test_done_is_what_the_answer_without_streaming_is(start_live):
    gateway = start_live(fake_policy([BOTH, DONE] * 2), fake_retriever(PASSAGES))
    done = ask(gateway, cache="bypass")[-1]
    plain = httpx2.post(f"{gateway.url}/v1/answers", json={"question": QUESTION, "cache": "bypass"}).json()
    assert isinstance(done, Done)

    def comparable(trajectory):
        trajectory = TrajectoryModel.model_validate({key: trajectory[key] for key in trajectory if key != "event"})
        dumped = trajectory.model_dump(exclude={"id", "timings"})
        for turn in dumped["turns"]:
            turn.pop("timings")
            for row in turn["observation"]:
                row.pop("latency_ms")
        return dumped

    assert comparable(done.model_dump()) == comparable(plain)
    assert done.citations
    assert done.usage.completion_tokens == len(BOTH) + len(DONE)


def test_the_policys_tokens_are_kept_as_streamed(start_live):
    policy = fake_policy([BOTH, DONE])
    ask(start_live(policy, fake_retriever(PASSAGES)))
    first, second = policy.state.contexts
    assert second.startswith(first + BOTH + "\n\n<information>")


@pytest.mark.parametrize("options", [{"streams": False}, {"tokenizes": False}, {"tokenizes": False, "streams": False}])
def test_a_policy_that_streams_less_gives_the_same_events(start_live, options):
    events = ask(start_live(fake_policy([BOTH, DONE], **options), fake_retriever(PASSAGES)))
    assert text(events, ReasoningDelta, 0) == "both"
    assert events[-1].answer == text(events, AnswerDelta, 1) == "Camille Pissarro"


def test_deltas_come_while_the_policy_still_writes(start_live):
    policy = slow_policy(pause_s=0.5)
    gateway = start_live(policy, fake_retriever(PASSAGES))
    started, arrived = time.monotonic(), {}
    with httpx2.Client().sse(f"{gateway.url}/v1/answers", method="POST", json=BODY) as source:
        for sent in source:
            arrived.setdefault(sent.event, time.monotonic() - started)
    assert arrived["done"] - arrived["reasoning.delta"] > 0.4


def test_cached_sub_queries_are_told_as_such(start_live):
    gateway = start_live(fake_policy([BOTH, DONE] * 2), fake_retriever(PASSAGES))
    ask(gateway)
    landed = [event for event in ask(gateway) if event.event == "search.result"]
    assert [event.cached for event in landed] == [True, True]


def test_a_failed_rollout_ends_in_a_problem_with_the_trajectory_so_far(start_live):
    events = ask(start_live(fake_policy([BOTH, 500]), fake_retriever(PASSAGES)))
    error = events[-1]
    assert isinstance(error, Failed)
    assert (error.status, error.stop_reason, len(error.trajectory["turns"])) == (503, "policy_failed", 1)
    assert error.type.endswith("upstream-unavailable")


def test_failed_sub_queries_are_told_one_by_one(start_live):
    passages = PASSAGES | {"When was Claude Monet born?": 422}
    events = ask(start_live(fake_policy([BOTH, DONE]), fake_retriever(passages)))
    assert [event.failed for event in events if event.event == "search.result"] == [True, False]


def test_what_cannot_be_served_is_refused_with_its_status_and_not_as_an_event(start_live):
    gateway = start_live(fake_policy([DONE]), fake_retriever(PASSAGES))
    refused = httpx2.post(f"{gateway.url}/v1/answers", json=BODY | {"model": "gpt"})
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


def test_a_comment_keeps_the_connection_alive(start_live):
    gateway = start_live(slow_policy(pause_s=0.5), fake_retriever(PASSAGES), heartbeat_s=0.1)
    with httpx2.Client().stream("POST", f"{gateway.url}/v1/answers", json=BODY) as response:
        lines = list(response.iter_lines())
    assert lines.count(": heartbeat") >= 2


CHAT = {"model": "parallelsearch", "messages": [{"role": "user", "content": QUESTION}], "stream": True}


@pytest.mark.parametrize(
    ("path", "asked", "grace_s"),
    [
        ("/v1/answers", {"question": QUESTION}, 60),
        ("/v1/answers", BODY, 0),
        ("/v1/answers", BODY, 0.3),
        ("/v1/chat/completions", CHAT, 60),
    ],
)
def test_a_caller_that_hangs_up_aborts_the_generation(start_live, path, asked, grace_s):
    policy = endless_policy()
    gateway = start_live(policy, fake_retriever(PASSAGES), stream_grace_s=grace_s)
    before = cancelled(gateway)
    with request_sent(gateway, path, asked):
        wait_for(lambda: policy.state.open == 1)
    wait_for(lambda: policy.state.open == 0)
    in_flight = "parallelsearch_answers_in_flight 0.0"
    wait_for(lambda: in_flight in httpx2.get(f"{gateway.url}/metrics").text)
    assert cancelled(gateway) == before + 1


def cancelled(gateway):
    counted = 'parallelsearch_answers_total{mode="parallel",stop_reason="cancelled"} '
    lines = httpx2.get(f"{gateway.url}/metrics").text.splitlines()
    return sum(float(line.removeprefix(counted)) for line in lines if line.startswith(counted))


@pytest.mark.parametrize("cache", ["use", "bypass"])
def test_a_searcher_that_hangs_up_keeps_no_place(start_live, tmp_path, cache):
    retriever, over = fake_retriever(PASSAGES), threading.Event()

    async def hanging(scope, receive, send):
        while scope["path"] == "/v1/retrieve" and not over.is_set():
            await anyio.sleep(0.02)
        await retriever(scope, receive, send)

    (tmp_path / "keys.json").write_text("[]")
    key = {"authorization": f"Bearer {add_key('mine', tmp_path / 'keys.json')}"}
    gateway = start_live(fake_policy([]), hanging, api_keys_file=tmp_path / "keys.json", key_concurrent=1)
    with request_sent(gateway, "/v1/search", {"queries": ["x"], "cache": cache}, headers=key):
        wait_for(lambda: httpx2.get(f"{gateway.url}/v1/models", headers=key).status_code == 429)
    wait_for(lambda: httpx2.get(f"{gateway.url}/v1/models", headers=key).status_code == 200, timeout_s=3)
    over.set()


def test_a_reader_that_takes_nothing_is_cut_off(start_live, capfd, caplog):
    wide = {query: [(str(i), query, "word " * 180_000) for i in range(3)] for query in PASSAGES}
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(wide), stream_write_timeout_s=0.3)
    before = answered(gateway)
    with request_sent(gateway, "/v1/answers", BODY) as caller:
        wait_for(lambda: answered(gateway) > before, timeout_s=30)
        caller.settimeout(5)
        received = b""
        while piece := caller.recv(1_000_000):
            received += piece
    assert b"event: done" not in received
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_deltas_that_wait_are_joined_and_what_was_taken_never_changes():
    async def scenario():
        log = EventLog()
        log.put(TurnStarted(id="a", turn=0))
        for character in "abc" * 10_000:
            log.put(ReasoningDelta(turn=0, text=character))
        first = [numbered async for numbered in taken(log, 2)]
        log.put(ReasoningDelta(turn=0, text="d"))
        log.put(AnswerDelta(turn=0, text="e"))
        log.close()
        return first, [numbered async for numbered in log.after(0)]

    first, everything = asyncio.run(scenario())
    assert everything[:2] == first
    assert [numbered.number for numbered in everything] == [1, 2, 3, 4]
    assert [len(numbered.event.text) for numbered in everything[1:]] == [30_000, 1, 1]


def test_the_log_is_bounded_and_a_reader_too_far_behind_is_told_so():
    async def scenario():
        log = EventLog()
        for turn in range(MAX_KEPT + 10):
            log.put(TurnStarted(id="a", turn=turn))
        log.close()
        assert (log.holds_after(9), log.holds_after(10)) == (False, True)
        with pytest.raises(Gone):
            await anext(log.after(9))
        return [numbered.event.turn async for numbered in log.after(10)]

    assert asyncio.run(scenario()) == list(range(10, MAX_KEPT + 10))


async def taken(log, count):
    async for numbered in log.after(0):
        yield numbered
        if numbered.number == count:
            return


def answered(gateway):
    """How many requests for answers have ended."""
    lines = httpx2.get(f"{gateway.url}/metrics").text.splitlines()
    return sum(
        float(line.split()[-1]) for line in lines if line.startswith("parallelsearch_http_requests_total") and "/v1/answers" in line
    )


def test_a_reader_who_comes_back_as_the_stream_is_given_up_is_told_so():
    async def endless(_):
        await anyio.sleep_forever()

    async def scenario():
        stream = AnswerStream("x", endless, grace_s=60)
        await asyncio.sleep(0)
        coming = stream.events()
        stream.give_up()
        return [numbered.event async for numbered in coming]

    assert [(event.event, event.status) for event in asyncio.run(scenario())] == [("error", 410)]
