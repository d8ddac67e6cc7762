"""A caller's places while Redis comes and goes: none is lost."""

import asyncio

import pytest

from gateway.auth import Caller
from gateway.limits import MAX_OWED, Limiter
from gateway.redis_link import RedisLink
from parallelsearch.errors import LimitExceeded

pytestmark = pytest.mark.anyio
ONE = Caller("team", concurrent=1)


class Unsteady(RedisLink):
    """Does what it is told, and answers as if it had not, or does not do it, where it is told to fail."""

    def __init__(self, url):
        super().__init__(url, timeout_s=2.0)
        self.loses_answer = self.is_gone = False
        self.delay_s = 0

    async def call(self, work):
        if self.is_gone:
            return None
        answer = await super().call(work)
        await asyncio.sleep(self.delay_s)
        return None if self.loses_answer else answer


@pytest.fixture
async def link(valkey):
    link = Unsteady(valkey.url)
    yield link
    await link.close()


async def leases(link):
    return await link.call(lambda redis: redis.zcard("parallelsearch:leases:team"))


async def test_a_place_whose_answer_came_too_late_is_given_back(link):
    limiter = Limiter(link)
    link.loses_answer = True
    async with limiter.one_request(ONE):
        pass
    link.loses_answer = False
    assert await leases(link) == 1
    async with limiter.one_request(ONE):
        with pytest.raises(LimitExceeded):
            async with limiter.one_request(ONE):
                pass
    assert await leases(link) == 0


async def test_a_request_that_is_refused_or_broken_off_meanwhile_keeps_no_place(link):
    limiter = Limiter(link)
    link.is_gone = True
    async with limiter.one_request(ONE):
        link.is_gone, link.loses_answer = False, True
        with pytest.raises(LimitExceeded):
            async with limiter.one_request(ONE):
                pass
    link.loses_answer, link.delay_s = False, 5
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), limiter.one_request(ONE):
            pass
    link.delay_s = 0
    async with limiter.one_request(ONE):
        pass
    assert await leases(link) == 0


async def test_a_place_that_could_not_be_given_back_is_given_back_with_the_next_request(link):
    limiter = Limiter(link)
    async with limiter.one_request(ONE):
        link.is_gone = True
    link.is_gone = False
    assert await leases(link) == 1
    async with limiter.one_request(ONE):
        pass
    assert await leases(link) == 0


async def test_a_request_that_is_broken_off_twice_gives_its_place_back(link):
    limiter, begun = Limiter(link), asyncio.Event()

    async def hold():
        async with limiter.one_request(ONE):
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(hold())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with limiter.one_request(ONE):
        pass
    assert await leases(link) == 0


async def test_what_is_owed_is_bounded(link):
    limiter, many = Limiter(link), Caller("team", concurrent=MAX_OWED * 2)
    link.is_gone = True
    for _ in range(MAX_OWED + 10):
        async with limiter.one_request(many):
            pass
    link.is_gone = False
    assert len(limiter._owed["team"]) == MAX_OWED
    async with limiter.one_request(many):
        pass
    assert not limiter._owed["team"]
