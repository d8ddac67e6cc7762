"""The link to Redis: a reply that comes too late is never taken for that of another call."""

import asyncio

import pytest

from gateway import redis_link
from gateway.redis_link import RedisLink

pytestmark = pytest.mark.anyio
KEYS = [f"key-{number}" for number in range(12)]
PAUSE_MS = 150


@pytest.fixture
async def link(valkey, monkeypatch):
    """Two connections, which all calls share; a failure is no reason to rest."""
    monkeypatch.setattr(redis_link, "CONNECTIONS", 2)
    monkeypatch.setattr(redis_link, "REST_S", 0.0)
    link = RedisLink(valkey.url, timeout_s=1.0)
    for key in KEYS:
        await link.call(lambda redis, key=key: redis.set(key, f"value of {key}"))
    yield link
    await link.close()


def read(link, key):
    return link.call(lambda redis: redis.get(key))


async def pause(link):
    """From now on Redis answers nothing for a while; then it answers all that it was sent."""
    assert await link.call(lambda redis: redis.client_pause(PAUSE_MS))


async def after_the_pause(link):
    await asyncio.sleep(PAUSE_MS / 1000)
    return {key: await read(link, key) for key in KEYS}


async def test_after_calls_that_timed_out(link):
    link._timeout_s = PAUSE_MS / 3000
    await pause(link)
    assert await asyncio.gather(*(read(link, key) for key in reversed(KEYS))) == [None] * len(KEYS)
    link._timeout_s = 1.0
    assert await after_the_pause(link) == {key: f"value of {key}".encode() for key in KEYS}


async def test_after_calls_whose_callers_went(link):
    await pause(link)
    calls = [asyncio.create_task(read(link, key)) for key in reversed(KEYS)]
    await asyncio.sleep(PAUSE_MS / 3000)
    for call in calls:
        call.cancel()
    assert all(isinstance(ended, asyncio.CancelledError) for ended in await asyncio.gather(*calls, return_exceptions=True))
    assert await after_the_pause(link) == {key: f"value of {key}".encode() for key in KEYS}
