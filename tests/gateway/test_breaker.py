import asyncio
import time

import httpx2
import pytest

from gateway.breaker import FAILURES_IN_A_ROW, CircuitBreaker
from parallelsearch.clients.pools import Call, HttpxPool


class Upstream(httpx2.AsyncBaseTransport):
    def __init__(self):
        self.answer, self.asked = 200, 0

    async def handle_async_request(self, request):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return httpx2.Response(self.answer)


@pytest.fixture
def upstream():
    return Upstream()


@pytest.fixture
def ask(upstream):
    """Statuses of so many requests one after the other; 0 where nobody answered."""
    breaker = CircuitBreaker(HttpxPool(upstream), "test")

    async def status():
        try:
            return (await breaker.open(Call("GET", "http://x/", {}, b"", timeout_s=1))).status
        except httpx2.TransportError:
            return 0

    def asked(times):
        async def main():
            return [await status() for _ in range(times)]

        return asyncio.run(main())

    return asked


@pytest.mark.parametrize("answer", [503, httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow")])
def test_after_failures_in_a_row_an_upstream_is_left_alone(upstream, ask, answer):
    upstream.answer = answer
    ask(FAILURES_IN_A_ROW + 20)
    assert upstream.asked == FAILURES_IN_A_ROW


def test_it_is_asked_again_after_a_rest_and_used_when_back(upstream, ask):
    upstream.answer = 503
    ask(FAILURES_IN_A_ROW)
    upstream.answer = 200
    assert ask(1) == [0]
    time.sleep(1.05)
    assert ask(3) == [200, 200, 200]


def test_each_failed_trial_doubles_the_rest(upstream, ask):
    upstream.answer = 503
    ask(FAILURES_IN_A_ROW)
    time.sleep(1.05)
    assert ask(3) == [503, 0, 0]
    time.sleep(1.05)
    assert ask(1) == [0]
    time.sleep(1.05)
    assert ask(1) == [503]


@pytest.mark.parametrize("answer", [200, 400, 422, 500])
def test_answers_that_blame_the_request_are_no_failures(upstream, ask, answer):
    upstream.answer = answer
    assert ask(FAILURES_IN_A_ROW * 3) == [answer] * FAILURES_IN_A_ROW * 3


def test_a_success_in_between_starts_the_count_again(upstream, ask):
    for _ in range(3):
        upstream.answer = 503
        ask(FAILURES_IN_A_ROW - 1)
        upstream.answer = 200
        assert ask(1) == [200]
