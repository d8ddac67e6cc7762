"""What the gateway knows of its upstreams, kept fresh in the background: which policy and which index answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import httpx2
import structlog

from gateway.addresses import listed, resolved
from gateway.breaker import CircuitBreaker
from gateway.cache import IndexVersion, SearchCache
from gateway.flights import Flights, IndexVersions
from gateway.redis_link import RedisLink
from gateway.replicas import PolicyReplicas
from gateway.settings import GatewaySettings
from gateway.tracing import TracedPool
from parallelsearch.clients.aiohttp_pool import AiohttpPool
from parallelsearch.clients.http import KEEP_ALIVE_S
from parallelsearch.clients.policy import PolicyHttp
from parallelsearch.clients.pools import HttpxPool, Pool
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.errors import InvalidInput, ParallelSearchError, UpstreamUnavailable
from parallelsearch.rollout.types import Filter, Scope
from parallelsearch.schemas.retrieval import IndexModel
from servicekit.health import Readiness
from servicekit.tracing import Tracing

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Transports:
    """How upstreams are reached; None is the network. The seam of the tests."""

    policy: httpx2.AsyncBaseTransport | None = None
    retriever: httpx2.AsyncBaseTransport | None = None
    trainer: httpx2.AsyncBaseTransport | None = None


REAL = Transports()
CONNECTIONS = 4_096
"""Per upstream: more than answers are let in, since each has at most one request to an upstream at a time."""

LONGEST_LOOK_S = 2.0
"""So long a request waits to hear whether an index is served; what answers has it at hand."""


def _pool(given: httpx2.AsyncBaseTransport | None, upstream: str, tracing: Tracing | None) -> Pool:
    """From the outside in: traced, broken off while the upstream fails, over connections."""
    connections = HttpxPool(given) if given else AiohttpPool(connections=CONNECTIONS, keep_alive_s=KEEP_ALIVE_S)
    pool = CircuitBreaker(connections, upstream)
    return TracedPool(pool, upstream.partition(" ")[0], tracing.tracer) if tracing is not None and tracing.is_on else pool


class Upstreams:
    """Policy, retriever and cache. The policy may come up after the gateway: until then answering is refused with 503."""

    def __init__(self, settings: GatewaySettings, transports: Transports = REAL, tracing: Tracing | None = None) -> None:
        api_key = settings.policy_api_key.get_secret_value() if settings.policy_api_key else ""
        self._settings = settings

        def connect(url: str) -> PolicyHttp:
            name = "policy" if url == settings.policy_base_url else f"policy {httpx2.URL(url).netloc.decode()}"
            pool = _pool(transports.policy, name, tracing)
            # Another replica may take what one wants to be asked later: `replicas` waits where there is none.
            return PolicyHttp(url, timeout_s=settings.policy_timeout_s, api_key=api_key, pool=pool, patience_s=0)

        addresses = (resolved if settings.policy_discovery == "dns" else listed)(settings.policy_base_url)
        self.policies = PolicyReplicas(
            addresses,
            connect,
            model=settings.policy_model,
            probe_timeout_s=settings.policy_probe_timeout_s,
            turn_tokens=settings.turn_tokens,
        )
        self.retriever = RetrieverClient(
            settings.retriever_url,
            timeout_s=settings.retriever_timeout_s,
            pool=_pool(transports.retriever, "retriever", tracing),
        )
        self.redis = RedisLink(settings.redis_url, timeout_s=settings.cache_timeout_s)
        self.cache = SearchCache(self.redis, ttl_s=settings.cache_ttl_s)
        self.versions = IndexVersions()
        self.default_index = "default"
        self.flights = Flights(self.cache, self.retriever, self.versions)
        self._described: dict[str, IndexModel] = {}
        self._retriever_fault = "not asked yet"
        self._asking: asyncio.Task[None] | None = None

    async def readiness(self) -> Readiness:
        """Ready for traffic while one replica of the policy is; degraded while one is left out."""
        faults = self.policies.faults
        checks = {
            "policy": "; ".join(f"{url}: {fault}" for url, fault in faults.items()) or "ok",
            "retriever": self._retriever_fault or "ok",
            "cache": "ok" if self.redis.is_up else "down: searches go to the retriever",
        }
        if not self.policies.is_ready or self._retriever_fault:
            return Readiness("failed" if self.policies.is_connected else "starting", checks)
        return Readiness("ready" if self.redis.is_up and not faults else "degraded", checks)

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Asks all upstreams now, and again every few seconds until the block ends."""
        await self._refresh()
        task = asyncio.create_task(self._refresh_for_ever())
        try:
            yield
        finally:
            task.cancel()
            if self._asking is not None:
                self._asking.cancel()
            await asyncio.gather(task, *([self._asking] if self._asking else []), return_exceptions=True)
            await self.flights.close()
            await self.policies.close()
            await self.retriever.close()
            await self.redis.close()

    async def _refresh_for_ever(self) -> None:
        while True:
            settled = not self.policies.faults and not self._retriever_fault
            await asyncio.sleep(self._settings.upstream_refresh_s if settled else 0.5)
            await self._refresh()

    async def _refresh(self) -> None:
        """What one look runs into, however strange, must not keep the others and the next from being made."""
        looks = self.policies.refresh(), self._ask_retriever(), self.redis.ping()
        for found in await asyncio.gather(*looks, return_exceptions=True):
            if isinstance(found, Exception):
                log.error("upstream_not_refreshed", error=type(found).__name__, exc_info=found)

    async def _ask_retriever(self) -> None:
        try:
            default, *named = await self.retriever.indexes()
        except (ParallelSearchError, ValueError) as error:
            self._retriever_fault = error.detail if isinstance(error, ParallelSearchError) else "The retriever serves no index."
            return
        known = {"": default} | {index.name: index for index in named}
        self.versions.replace({name: IndexVersion(index.fingerprint, index.ranking) for name, index in known.items()})
        self._described = known
        self.default_index, self._retriever_fault = default.name, ""

    async def _ask_together(self) -> None:
        """Asks the retriever once for all who want to know at the same time.

        Raises:
            UpstreamUnavailable: it does not say.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_retriever())
        try:
            async with asyncio.timeout(LONGEST_LOOK_S):
                await asyncio.shield(self._asking)
        except TimeoutError:
            raise UpstreamUnavailable("The retriever does not say in time which indexes it serves.", retry_after_s=2) from None
        if self._retriever_fault:
            raise UpstreamUnavailable(f"Which indexes are served is not known: {self._retriever_fault}", retry_after_s=2)

    async def index_named(self, name: str | None) -> str:
        """The index that a request names, by its name or its fingerprint; empty for the default one.

        For a name that is not known the retriever is asked anew.

        Raises:
            InvalidInput: it is not served.
            UpstreamUnavailable: the retriever does not say whether it is.
        """
        if name in {None, "", "default", self.default_index}:
            return ""
        for last in (False, True):
            for known in self.versions.names:
                if name in {known, self.versions.of(known).fingerprint}:
                    return known
            if not last:
                await self._ask_together()
        served = ", ".join([self.default_index, *(known for known in self.versions.names if known)])
        raise InvalidInput(f"index: {name!r} is not served here; there are: {served}")

    def as_searched(self, scope: Scope) -> Scope:
        """With its method, where the retriever searches the web unasked: then no index answers, nor is cached under its version."""
        index = self._described.get(scope.index)
        web_unasked = index is not None and index.default_method == "web" and not scope.method
        return replace(scope, method="web") if web_unasked else scope

    def check_scope(self, scope: Scope) -> None:
        """Refuses what the retriever would: it would come back as a failed search. Before the retriever told, all may be.

        Raises:
            InvalidInput: a method that the index is not searched by, or a filter where there are no documents.
        """
        index = self._described.get(scope.index)
        if index is None:
            return
        if scope.method and scope.method not in index.methods:
            raise InvalidInput(f"method: {scope.method} is not there for this index; there are: {', '.join(index.methods)}")
        if scope.method == "web" and scope != Scope(method="web"):
            raise InvalidInput("method: web searches no index; leave `index` and `filter` out.")
        if scope.filter != Filter() and index.documents is None:
            raise InvalidInput("filter: this index was built of passages, which have no documents to filter by.")
