"""The one connection pool to Redis, and what happens while Redis is gone: nothing waits for it, and it is used again when back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from gateway import metrics

log = structlog.get_logger(__name__)
T = TypeVar("T")

CONNECTIONS = 64
REST_S = 1.0
"""After a failure Redis is left alone for this long, so that a dead one costs one time-out and not one per search."""


class RedisLink:
    """`call` never raises for a Redis that fails; `is_up` and a metric tell. `timeout_s` bounds a call as a whole.

    redis-py's own time-outs and its pool that waits make tasks and locks for each step, which takes longer than the call.
    """

    def __init__(self, url: str | None, *, timeout_s: float) -> None:
        self._rest_until = 0.0
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(CONNECTIONS)
        self.is_up = url is not None
        self._redis: Redis | None = None
        if url is not None:
            pool = ConnectionPool.from_url(
                url, max_connections=CONNECTIONS, socket_timeout=None, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
            )
            self._redis = Redis.from_pool(pool)

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()

    async def ping(self) -> bool:
        """Whether Redis answers now; ends a rest early if it does."""
        self._rest_until = 0.0
        return await self.call(lambda redis: redis.ping()) is not None

    async def call(self, work: Callable[[Redis], Awaitable[T]]) -> T | None:
        """What `work` gets, which must not be None; None while Redis is not there."""
        if self._redis is None or time.monotonic() < self._rest_until:
            return None
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                answer = await work(self._redis)
        except (RedisError, OSError) as error:
            self._failed(error)
            return None
        self._worked()
        return answer

    def _failed(self, error: Exception) -> None:
        metrics.CACHE.labels("error").inc()
        metrics.CACHE_UP.set(0)
        if self.is_up:
            log.warning("redis_down", error=str(error) or type(error).__name__)
        self.is_up = False
        self._rest_until = time.monotonic() + REST_S

    def _worked(self) -> None:
        if not self.is_up:
            log.info("redis_up")
        metrics.CACHE_UP.set(1)
        self.is_up = True
