"""Streams of answers from gateways that break off, begin again, or are no gateways."""

import asyncio
from urllib.parse import quote

import httpx2
import pytest

from parallelsearch.clients import answers
from parallelsearch.clients.answers import AnswersClient
from parallelsearch.errors import ParallelSearchError, UpstreamUnavailable
from parallelsearch.schemas.answers import AnswerRequest, TrajectoryModel
from parallelsearch.schemas.events import Done, ReasoningDelta, TurnStarted

EVENTS = [
    TurnStarted(id="a1", turn=0),
    *(ReasoningDelta(turn=0, text=str(number)) for number in range(5)),
    Done(**TrajectoryModel(id="a1", question="Who?", stop_reason="answered").model_dump()),
]


def written(events, first=1):
    return b"".join(
        f"event: {event.event}\nid: {number}\ndata: {event.model_dump_json()}\n\n".encode()
        for number, event in enumerate(events, start=first)
    )


@pytest.fixture(autouse=True)
def without_waits(monkeypatch):
    monkeypatch.setattr(answers, "RESUME_AFTER_S", (0.0,) * len(answers.RESUME_AFTER_S))


def read(handler):
    """What is read of a stream, and how often was asked."""
    seen = []

    def counted(request):
        seen.append(request)
        return handler(request)

    async def reading():
        client = AnswersClient("http://gateway", transport=httpx2.MockTransport(counted))
        return [event async for event in client.stream(AnswerRequest(question="Who?"))]

    try:
        return asyncio.run(asyncio.wait_for(reading(), 20)), seen
    except ParallelSearchError as error:
        return error, seen


def stream(content):
    return httpx2.Response(200, content=content, headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_server_that_begins_again_is_read_as_one_that_goes_on(cut):
    found, seen = read(lambda request: stream(written(EVENTS[:cut] if request.method == "POST" else EVENTS)))
    assert found == EVENTS
    assert len(seen) == 2


@pytest.mark.parametrize("cut", [1, 4])
def test_a_stream_that_never_gets_any_further_is_given_up(cut):
    found, seen = read(lambda _: stream(written(EVENTS[:cut])))
    assert isinstance(found, UpstreamUnavailable)
    assert len(seen) == 1 + len(answers.RESUME_AFTER_S)


def test_a_stream_that_gets_on_a_little_each_time_is_read_to_its_end():
    def handler(request):
        last = int(request.headers.get("last-event-id", 0))
        return stream(written(EVENTS[last : last + 1], first=last + 1))

    found, seen = read(handler)
    assert found == EVENTS
    assert len(seen) == len(EVENTS)


@pytest.mark.parametrize("answer_id", ["../../v1/search", "a/b?c#d", "é", "%2e"])
def test_whatever_the_id_of_an_answer_only_its_own_events_are_asked_for(answer_id):
    found, seen = read(lambda _: stream(written([TurnStarted(id=answer_id, turn=0)])))
    assert isinstance(found, UpstreamUnavailable)
    paths = {request.url.raw_path.decode() for request in seen if request.method == "GET"}
    assert paths == {f"/v1/answers/{quote(answer_id, safe='')}/events"}


@pytest.mark.parametrize(
    "response",
    [
        stream(written(EVENTS[:1]).replace(b"id: 1", "id: é".encode())),
        stream(b""),
        stream(b"data: nope\n\n"),
        stream(b"data: \xff\xfe\n\n"),
        stream(b"data: " + b"[" * 100_000 + b"\n\n"),
        stream(b": only a comment\n\nretry: 99999999\n\n"),
        httpx2.Response(200, content=b"<html>", headers={"content-type": "text/html"}),
        httpx2.Response(204),
        httpx2.Response(307, headers={"location": "http://elsewhere/"}),
    ],
)
def test_what_is_no_stream_of_ours_is_an_error_at_once(response):
    found, seen = read(lambda _: response)
    assert isinstance(found, ParallelSearchError)
    assert len(seen) == 1
