"""The cache of search results in Redis. A cache that is gone costs nothing but its hits."""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Mapping, Sequence

import orjson
import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from gateway import metrics
from parallelsearch.rollout.types import Passage

log = structlog.get_logger(__name__)

KEY_VERSION = "1"
REST_S = 1.0
"""After a failure the cache is left alone for this long, so that a dead one costs one time-out and not one per search."""
Passages = tuple[Passage, ...]


def normalise(query: str) -> str:
    """The form of a query that is searched for and cached: composed Unicode, single spaces. Case stays: encoders may see it."""
    return " ".join(unicodedata.normalize("NFC", query).split())


def cache_key(query: str, top_k: int, fingerprint: str) -> str:
    """`query` must be normalised. A new index has a new fingerprint, so nothing old is ever read again."""
    digest = hashlib.sha256(query.encode()).hexdigest()
    return f"parallelsearch:{KEY_VERSION}:{fingerprint}:{top_k}:{digest}"


def _dump(passages: Passages) -> bytes:
    return orjson.dumps([(p.id, p.title, p.text, p.score, p.url) for p in passages])


def _load(value: bytes | str) -> Passages | None:
    """None where the value is not what `_dump` writes, as if it were not there."""
    try:
        return tuple(Passage(*row) for row in orjson.loads(value))
    except (orjson.JSONDecodeError, TypeError):
        return None


class SearchCache:
    """`get` and `put` never raise for a cache that fails; `is_up` and a metric tell."""

    def __init__(self, url: str | None, *, ttl_s: int, timeout_s: float) -> None:
        self._ttl_s = ttl_s
        self._rest_until = 0.0
        self.is_up = url is not None
        self._redis: Redis | None = None
        if url is not None:
            self._redis = Redis.from_url(
                url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0), max_connections=128
            )

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()

    async def ping(self) -> bool:
        """Whether the cache answers now; ends a rest early if it does."""
        if self._redis is None:
            return False
        try:
            await self._redis.ping()
        except (RedisError, OSError) as error:
            self._failed(error)
            return False
        self._worked()
        return True

    async def get(self, keys: Sequence[str]) -> list[Passages | None]:
        """One multi-get; None for each key that is not there."""
        if self._redis is None or not keys or self._resting():
            return [None] * len(keys)
        try:
            values = await self._redis.mget(keys)
        except (RedisError, OSError) as error:
            self._failed(error)
            return [None] * len(keys)
        self._worked()
        return [None if value is None else _load(value) for value in values]

    async def put(self, rows: Mapping[str, Passages]) -> None:
        """One pipelined write."""
        if self._redis is None or not rows or self._resting():
            return
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for key, passages in rows.items():
                    pipeline.set(key, _dump(passages), ex=self._ttl_s)
                await pipeline.execute()
        except (RedisError, OSError) as error:
            self._failed(error)

    def _resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def _failed(self, error: Exception) -> None:
        metrics.CACHE.labels("error").inc()
        metrics.CACHE_UP.set(0)
        if self.is_up:
            log.warning("cache_down", error=str(error) or type(error).__name__)
        self.is_up = False
        self._rest_until = time.monotonic() + REST_S

    def _worked(self) -> None:
        if not self.is_up:
            log.info("cache_up")
        metrics.CACHE_UP.set(1)
        self.is_up = True
        self._rest_until = 0.0
