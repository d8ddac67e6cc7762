"""The cache of whole answers: off by default, for temperature 0 only, and only while policy and index are those that answered."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import asdict

import orjson
from pydantic import ValidationError

from gateway import metrics
from gateway.cache import IndexVersion
from gateway.redis_link import RedisLink
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import PolicyIdentity, StopReason
from parallelsearch.schemas.answers import AnswerActionModel, AnswerRequest, TrajectoryModel

KEY_VERSION = "3"
WHAT_COUNTS = {"question", "model", "filter", "method"}
"""Of a request, beside what the rollout's settings say. For the index its version stands; at temperature 0 a seed does nothing."""


class AnswerCache:
    """`ttl_s` of 0 turns it off. Answers only, that nothing marred: a rollout that ended otherwise is tried again."""

    def __init__(self, link: RedisLink, *, ttl_s: int) -> None:
        self._link = link
        self._ttl_s = ttl_s

    def key(self, request: AnswerRequest, settings: RolloutSettings, policy: PolicyIdentity, version: IndexVersion) -> str | None:
        """None for a request that must not be answered from a cache, or while the index is unknown."""
        if not self._ttl_s or request.temperature > 0 or request.cache == "bypass" or not version:
            return None
        asked = request.model_dump(mode="json", include=WHAT_COUNTS)
        what = orjson.dumps([asked, asdict(settings), asdict(policy), asdict(version)], option=orjson.OPT_SORT_KEYS)
        return f"parallelsearch:answer:{KEY_VERSION}:{hashlib.sha256(what).hexdigest()}"

    async def get(self, key: str) -> TrajectoryModel | None:
        value = await self._link.call(lambda redis: redis.mget([key]))
        if not value or not isinstance(value[0], bytes):
            metrics.ANSWER_CACHE.labels("miss").inc()
            return None
        try:
            trajectory = TrajectoryModel.model_validate_json(zlib.decompress(value[0]))
        except (zlib.error, ValidationError):
            return None
        metrics.ANSWER_CACHE.labels("hit").inc()
        return trajectory

    async def put(self, key: str, trajectory: TrajectoryModel, settings: RolloutSettings) -> None:
        if trajectory.stop_reason is StopReason.ANSWERED and not _is_makeshift(trajectory, settings):
            value = zlib.compress(trajectory.model_dump_json().encode())
            await self._link.call(lambda redis: redis.set(key, value, ex=self._ttl_s))


def _is_makeshift(trajectory: TrajectoryModel, settings: RolloutSettings) -> bool:
    """Whether a sub-query failed, or the deadline had the policy answer before its searches were used up."""
    last = trajectory.turns[-1]
    hurried = isinstance(last.action, AnswerActionModel) and last.action.opened and last.index < settings.searches
    return hurried or any(result.failed for turn in trajectory.turns for result in turn.observation)
