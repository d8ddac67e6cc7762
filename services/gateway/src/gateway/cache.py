"""The cache of search results in Redis. A cache that is gone costs nothing but its hits."""

from __future__ import annotations

import hashlib
import random
import unicodedata
import zlib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import cast

import orjson
from redis.asyncio import Redis

from gateway.redis_link import RedisLink
from parallelsearch.rollout.types import EVERYWHERE, Passage, Scope

KEY_VERSION = "4"
TTL_JITTER = 0.1
COMPRESSION_LEVEL = 1
CLAIM_MS = 2_000
"""A claim of a process that was killed ends by itself."""
Passages = tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """What the retriever answers from, as it says itself (`IndexModel`); false where that is not known yet."""

    fingerprint: str = ""
    ranking: str = ""

    def __bool__(self) -> bool:
        return bool(self.fingerprint)


def normalise(query: str) -> str:
    """The form of a query that is searched for and cached: composed Unicode, single spaces. Case stays: encoders may see it."""
    return " ".join(unicodedata.normalize("NFC", query).split())


def cache_key(query: str, top_k: int, version: IndexVersion, scope: Scope = EVERYWHERE) -> str:
    """`query` must be normalised. A new index or another way to rank is a new version, so nothing old is ever read again.

    Of the scope all counts but the name of the index, for which its version stands.
    """
    asked = orjson.dumps([query, top_k, version.ranking, _where(scope)])
    return f"parallelsearch:{KEY_VERSION}:{version.fingerprint}:{hashlib.sha256(asked).hexdigest()}"


@lru_cache(maxsize=1_024)
def _where(scope: Scope) -> str:
    """Every field but the index; nearly all requests have the same few."""
    fields = asdict(scope)
    del fields["index"]
    return orjson.dumps(fields).decode()


def _dump(passages: Passages) -> bytes:
    """Compressed rows. JSON spells a float with all its digits, so what is read is bit for bit what was written."""
    return zlib.compress(orjson.dumps([(p.id, p.title, p.text, p.score, p.url, p.metadata) for p in passages]), COMPRESSION_LEVEL)


def _load(value: bytes) -> Passages | None:
    """None where the value is not what `_dump` writes, as if it were not there."""
    try:
        return tuple(Passage(*row) for row in orjson.loads(zlib.decompress(value)))
    except (zlib.error, orjson.JSONDecodeError, TypeError):
        return None


class Claim(Enum):
    """What a reader finds in place of a row."""

    OURS = auto()
    """Nobody else searches for it: the reader does, and writes it."""
    THEIRS = auto()
    """Another replica searches for it right now."""


# For each of KEYS its value; else 1 if we may search for it, 0 if somebody else does. ARGV: milliseconds of a claim.
_CLAIM = """
local rows = {}
for i, key in ipairs(KEYS) do
  rows[i] = redis.call('GET', key)
    or (redis.call('SET', key .. ':claim', 1, 'NX', 'PX', ARGV[1]) and 1 or 0)
end
return rows
"""


def _row_or_claim(value: object) -> Passages | Claim:
    if isinstance(value, bytes):
        passages = _load(value)
        return Claim.OURS if passages is None else passages
    return Claim.OURS if value else Claim.THEIRS


class SearchCache:
    """Rows live for `ttl_s`, give or take a tenth, so that what was cached together does not expire together."""

    def __init__(self, link: RedisLink, *, ttl_s: int) -> None:
        self._link = link
        self._ttl_s = ttl_s

    async def claim(self, keys: Sequence[str]) -> list[Passages | Claim]:
        """All rows in one step, and a claim to each that is not there; all are ours where there is no cache."""
        arguments = (*keys, str(CLAIM_MS))
        values = await self._link.call(lambda redis: cast("Awaitable[list[object]]", redis.eval(_CLAIM, len(keys), *arguments)))
        if values is None:
            return [Claim.OURS] * len(keys)
        return [_row_or_claim(value) for value in values]

    async def get(self, keys: Sequence[str]) -> list[Passages | None]:
        """One multi-get; None for each key that is not there."""
        values = await self._link.call(lambda redis: redis.mget(keys)) if keys else None
        if values is None:
            return [None] * len(keys)
        return [_load(value) if isinstance(value, bytes) else None for value in values]

    async def put(self, rows: Mapping[str, Passages], claimed: Sequence[str] = ()) -> None:
        """One pipelined write, which also gives up the claims."""
        values = {key: _dump(passages) for key, passages in rows.items()}

        async def write(redis: Redis) -> list[object]:
            async with redis.pipeline(transaction=False) as pipeline:
                for key, value in values.items():
                    pipeline.set(key, value, ex=self._expiry_s())
                if claimed:
                    pipeline.delete(*(f"{key}:claim" for key in claimed))
                return await pipeline.execute()

        if rows or claimed:
            await self._link.call(write)

    def _expiry_s(self) -> int:
        return max(1, round(self._ttl_s * random.uniform(1 - TTL_JITTER, 1 + TTL_JITTER)))
