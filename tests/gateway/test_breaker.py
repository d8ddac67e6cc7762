import asyncio
import time

import httpx2
import pytest
from gateway_fakes import fake_policy, fake_retriever

from gateway.breaker import FAILURES_IN_A_ROW, CircuitBreaker
from parallelsearch.clients.policy import PolicyHttp, describe_policy
from parallelsearch.clients.pools import Call, HttpxPool
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.errors import UpstreamUnavailable


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

    async def status(method):
        try:
            return (await breaker.open(Call(method, "http://x/", {}, b"", timeout_s=1))).status
        except httpx2.TransportError:
            return 0

    def asked(times, method="POST"):
        async def main():
            return [await status(method) for _ in range(times)]

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


class ComesBack(httpx2.AsyncBaseTransport):
    def __init__(self, app):
        self.app, self.is_back = httpx2.ASGITransport(app), False

    async def handle_async_request(self, request):
        if not self.is_back:
            raise httpx2.ConnectError("refused")
        return await self.app.handle_async_request(request)


def policy_looked_at(pool):
    http = PolicyHttp("http://x/v1", pool=pool)
    return lambda: describe_policy(http, None)


def retriever_looked_at(pool):
    return RetrieverClient("http://x", pool=pool).indexes


@pytest.mark.parametrize(
    ("app", "looked_at"), [(fake_policy(["done"]), policy_looked_at), (fake_retriever({}), retriever_looked_at)]
)
def test_looks_find_an_upstream_as_soon_as_it_is_back_however_long_it_was_gone(app, looked_at):
    upstream = ComesBack(app)

    async def main():
        breaker = CircuitBreaker(HttpxPool(upstream), "test")
        look = looked_at(breaker)
        for _ in range(FAILURES_IN_A_ROW + 2):
            with pytest.raises(UpstreamUnavailable):
                await look()
        upstream.is_back = True
        assert await look()
        return (await breaker.open(Call("POST", "http://x/nothing", {}, b"", timeout_s=1))).status

    assert asyncio.run(main()) == 404


def test_failed_looks_leave_callers_failing_at_once(upstream, ask):
    upstream.answer = 503
    ask(FAILURES_IN_A_ROW)
    ask(20, "GET")
    asked = upstream.asked
    assert ask(5) == [0] * 5
    assert upstream.asked == asked
