"""What one caller may do: requests per minute (a token bucket) and requests at a time (leases), counted over all replicas.

Redis counts, in one script that is one step; while it is gone each process counts for itself.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from redis.asyncio import Redis

from gateway import metrics
from gateway.auth import Caller
from gateway.redis_link import RedisLink
from parallelsearch.errors import LimitExceeded

LEASE_S = 900
"""A lease that a killed process never gave back ends by itself; longer than the longest deadline."""
MAX_OWED = 1_024
"""Leases of one caller that Redis may still hold, which are given back once it answers; older ones end by themselves."""
NO_LIMIT = 0

# KEYS: bucket, leases. ARGV: requests per minute, concurrent (0: no limit), lease id, lease seconds, leases to give back.
# Answers 0, or milliseconds to wait for the bucket, or -1 if all leases are taken. Redis' own clock counts.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rate, concurrent = tonumber(ARGV[1]), tonumber(ARGV[2])
if concurrent > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  for i = 5, #ARGV do redis.call('ZREM', KEYS[2], ARGV[i]) end
  if redis.call('ZCARD', KEYS[2]) >= concurrent then return -1 end
end
if rate > 0 then
  local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
  local tokens = tonumber(bucket[1]) or rate
  local passed = math.max(0, now - (tonumber(bucket[2]) or now))
  tokens = math.min(rate, tokens + passed * rate / 60000)
  if tokens < 1 then return math.max(1, math.ceil((1 - tokens) * 60000 / rate)) end
  redis.call('HSET', KEYS[1], 'tokens', tostring(tokens - 1), 'at', now)
  redis.call('PEXPIRE', KEYS[1], 120000)
end
if concurrent > 0 then
  redis.call('ZADD', KEYS[2], now + ARGV[4] * 1000, ARGV[3])
  redis.call('EXPIRE', KEYS[2], ARGV[4])
end
return 0
"""
ALL_TAKEN = -1


@dataclass(slots=True)
class _Local:
    """One caller as this process counts it."""

    tokens: float
    at_s: float
    running: int = 0


@dataclass(slots=True)
class LocalLimits:
    """The same rule within one process; bounded by the number of keys."""

    callers: dict[str, _Local] = field(default_factory=dict)

    def take(self, caller: Caller) -> int:
        """0, milliseconds to wait, or `ALL_TAKEN`, as the script answers."""
        now, rate = time.monotonic(), caller.requests_per_minute or NO_LIMIT
        state = self.callers.setdefault(caller.name, _Local(rate, now))
        if caller.concurrent and state.running >= caller.concurrent:
            return ALL_TAKEN
        if rate:
            tokens = min(rate, state.tokens + (now - state.at_s) * rate / 60)
            if tokens < 1:
                return max(1, math.ceil((1 - tokens) * 60_000 / rate))
            state.tokens, state.at_s = tokens - 1, now
        state.running += 1
        return 0

    def give_back(self, caller: Caller) -> None:
        self.callers[caller.name].running -= 1


class Limiter:
    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._local = LocalLimits()
        self._owed: dict[str, dict[str, None]] = {}

    @asynccontextmanager
    async def one_request(self, caller: Caller) -> AsyncIterator[None]:
        """Holds one of the caller's places for the length of the block.

        Raises:
            LimitExceeded: too many a minute, or too many at a time.
        """
        if not caller.requests_per_minute and not caller.concurrent:
            yield
            return
        lease = uuid.uuid4().hex
        answer = None
        try:
            answer = await self._take(caller, lease)
        finally:
            if answer is None:  # Redis did not say whether it counted this one
                self._owe(caller, lease)
        local = answer is None
        verdict = self._local.take(caller) if answer is None else answer
        if verdict:
            raise self._refusal(caller, verdict)
        try:
            yield
        finally:
            if local:
                self._local.give_back(caller)
            elif caller.concurrent:
                await self._give_back(caller, lease)

    async def _take(self, caller: Caller, lease: str) -> int | None:
        owed = tuple(self._owed.get(caller.name, ()))
        arguments = (caller.requests_per_minute or NO_LIMIT, caller.concurrent or NO_LIMIT, lease, LEASE_S, *owed)

        def script(redis: Redis) -> Awaitable[int]:
            return cast("Awaitable[int]", redis.eval(_SCRIPT, 2, *_keys(caller), *map(str, arguments)))

        answer = await self._link.call(script)
        if answer is not None:
            self._settle(caller, owed)
        return answer

    async def _give_back(self, caller: Caller, lease: str) -> None:
        """Owes the lease until Redis has taken it back."""
        self._owe(caller, lease)
        if await self._link.call(lambda redis: redis.zrem(_keys(caller)[1], lease)) is not None:
            self._settle(caller, (lease,))

    def _owe(self, caller: Caller, lease: str) -> None:
        owed = self._owed.setdefault(caller.name, {})
        owed[lease] = None
        if len(owed) > MAX_OWED:
            del owed[next(iter(owed))]

    def _settle(self, caller: Caller, leases: Sequence[str]) -> None:
        for lease in leases:
            self._owed.get(caller.name, {}).pop(lease, None)

    def _refusal(self, caller: Caller, verdict: int) -> LimitExceeded:
        metrics.REFUSED.labels(caller.name, "concurrent" if verdict == ALL_TAKEN else "rate").inc()
        if verdict == ALL_TAKEN:
            return LimitExceeded(f"This key may run {caller.concurrent} requests at a time. Wait for one to end.", retry_after_s=1)
        return LimitExceeded(
            f"This key may send {caller.requests_per_minute} requests a minute. Slow down.", retry_after_s=verdict / 1000
        )


def _keys(caller: Caller) -> tuple[str, str]:
    return f"parallelsearch:rate:{caller.name}", f"parallelsearch:leases:{caller.name}"
