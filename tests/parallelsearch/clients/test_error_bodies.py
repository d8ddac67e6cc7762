"""What a server says of its failure may be anything: it becomes an error of ours, whose words fit into a problem."""

import asyncio

import httpx2
import orjson
import pytest

from parallelsearch.clients.answers import AnswersClient, GatewayProblem
from parallelsearch.clients.http import MAX_DETAIL_CHARACTERS
from parallelsearch.clients.policy_http import PolicyHttp
from parallelsearch.clients.pools import HttpxPool
from parallelsearch.clients.trainer import TrainerClient
from parallelsearch.errors import ParallelSearchError, UpstreamUnavailable
from parallelsearch.schemas.answers import AnswerRequest

BODIES = {
    "nothing": b"",
    "nested": b"[" * 200_000,
    "nested in an object": b'{"detail": ' + b"[" * 200_000,
    "a lone surrogate": b'{"detail": "\\ud800 is odd"}',
    "a lone surrogate as bytes": b'{"detail": "\xed\xa0\x80"}',
    "a long number": b"9" * 5_000,
    "no number": b'{"detail": NaN}',
    "a byte order mark": b'\xef\xbb\xbf{"detail": "x"}',
    "another encoding": '{"detail": "x"}'.encode("utf-16"),
    "bytes": bytes(range(256)),
    "long": b'{"detail": "' + b"x" * 100_000 + b'"}',
    "a list": b'["x"]',
    "null": b'{"detail": null, "error": null}',
    "an object in it": b'{"error": {"message": {"a": 1}}}',
}
TYPES = ["application/json", "text/html; charset=idna", "text/plain; charset=zlib"]


def answering(body, content_type):
    def handler(request):
        return httpx2.Response(503, content=body, headers={"content-type": content_type, "retry-after": "9" * 400})

    return httpx2.MockTransport(handler)


async def through_policy(transport):
    await PolicyHttp("http://policy", pool=HttpxPool(transport)).post("v1/completions", {})


async def through_policy_stream(transport):
    async with PolicyHttp("http://policy", pool=HttpxPool(transport)).stream("v1/completions", {}):
        pass


async def through_gateway(transport):
    await AnswersClient("http://gateway", transport=transport).answer(AnswerRequest(question="Who?"))


async def through_gateway_stream(transport):
    async for _ in AnswersClient("http://gateway", transport=transport).stream(AnswerRequest(question="Who?")):
        pass


async def through_trainer(transport):
    TrainerClient("http://trainer", transport=transport).list()


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("ask", [through_policy, through_policy_stream, through_gateway, through_gateway_stream, through_trainer])
def test_a_failure_in_any_words_is_an_error_of_ours(ask, body, content_type):
    with pytest.raises(ParallelSearchError) as failure:
        asyncio.run(ask(answering(body, content_type)))
    error = failure.value
    orjson.dumps(error.detail)
    if not isinstance(error, GatewayProblem):
        assert "answered 503" in error.detail
        assert len(error.detail) < MAX_DETAIL_CHARACTERS + 100
    assert error.retry_after_s is None or error.retry_after_s <= 3_600


def test_what_a_stream_breaks_off_with_is_cut_to_a_sentence():
    chunk = b'data: {"error": {"message": "' + b"x" * 100_000 + b'"}}\n\n'

    def handler(request):
        return httpx2.Response(200, content=chunk, headers={"content-type": "text/event-stream"})

    async def read():
        async with PolicyHttp("http://policy", pool=HttpxPool(httpx2.MockTransport(handler))).stream("x", {}) as answer:
            async for _ in answer.chunks:
                pass

    with pytest.raises(UpstreamUnavailable, match="broke off") as failure:
        asyncio.run(read())
    assert len(failure.value.detail) < MAX_DETAIL_CHARACTERS + 100
