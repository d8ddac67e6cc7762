"""The client of the retriever: one batch for all sub-queries of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import httpx2
import orjson
from pydantic import ValidationError

from parallelsearch.clients.http import Refusal, may_retry
from parallelsearch.clients.pools import Pool
from parallelsearch.clients.wire import JSON_HEADERS, Wire, with_retries
from parallelsearch.errors import NotFound, ParallelSearchError, RetrievalFailed, UpstreamUnavailable
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import EVERYWHERE, Scope, SubQueryResult
from parallelsearch.schemas.retrieval import MAX_QUERY_CHARACTERS, IndexesModel, IndexModel, RetrieveResponse, filter_to_wire
from parallelsearch.schemas.trajectories import passage_from_wire

NAME = "retriever"
ATTEMPTS, LONGEST_WAIT_S = 3, 0.5
UNANSWERED = frozenset({502, 504})


class RetrieverClient:
    """Implements `SearchBackend` over HTTP. Searching changes nothing, so failures are tried again (with jitter).

    An overloaded retriever is given the time that it asks for, if that ends within `timeout_s` of the search's begin.
    What a newer retriever says besides is passed over, so that it may be renewed first.
    """

    def __init__(self, base_url: str, *, timeout_s: float = 10.0, pool: Pool | None = None) -> None:
        # The retriever drops what nobody waits for any more.
        headers = JSON_HEADERS | {"x-deadline-ms": str(max(1, int(timeout_s * 1000)))}
        self._timeout_s = timeout_s
        self._wire = Wire(NAME, base_url, timeout_s=timeout_s, headers=headers, pool=pool)

    async def close(self) -> None:
        await self._wire.close()

    async def index(self) -> IndexModel:
        """What the retriever serves.

        Raises:
            UpstreamUnavailable: it cannot be reached or answers badly.
        """
        response = await self._wire.send("GET", "v1/index")
        try:
            return IndexModel.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise UpstreamUnavailable("The retriever's answer to /v1/index is not an index description.") from error

    async def indexes(self) -> tuple[IndexModel, ...]:
        """All that the retriever serves, the default one first; raises as `index` does."""
        try:
            response = await self._wire.send("GET", "v1/indexes")
        except NotFound:  # one that knows a single index
            return (await self.index(),)
        try:
            return tuple(IndexesModel.model_validate_json(response.content, extra="ignore").indexes)
        except ValidationError as error:
            raise UpstreamUnavailable("The retriever's answer to /v1/indexes is not a list of indexes.") from error

    async def search(self, queries: Sequence[str], top_k: int, scope: Scope = EVERYWHERE) -> SearchBatch:
        """One request for all; if it fails for a reason of its own, each query alone, so that one cannot fail the others."""
        if not queries:
            return SearchBatch(())
        until = time.monotonic() + self._timeout_s
        try:
            return await self._retrieve(queries, top_k, scope, until)
        except ParallelSearchError as error:
            if len(queries) == 1 or error.asked_to_wait or _is_down(error):
                raise RetrievalFailed(error.detail, retry_after_s=error.retry_after_s or 2) from error
        return await self._one_by_one(queries, top_k, scope, until)

    async def _one_by_one(self, queries: Sequence[str], top_k: int, scope: Scope, until: float) -> SearchBatch:
        async def alone(query: str) -> SearchBatch:
            try:
                return await self._retrieve([query], top_k, scope, until)
            except ParallelSearchError:
                return SearchBatch((SubQueryResult(query, failed=True),))

        batches = await asyncio.gather(*map(alone, queries))
        results = tuple(batch.results[0] for batch in batches)
        if all(result.failed for result in results):
            raise RetrievalFailed("The retriever failed for every sub-query.", retry_after_s=2)
        answered = next(batch for batch, result in zip(batches, results, strict=True) if not result.failed)
        return SearchBatch(results, answered.fingerprint, answered.ranking)

    async def _retrieve(self, queries: Sequence[str], top_k: int, scope: Scope, until: float) -> SearchBatch:
        return await with_retries(
            lambda: self._post(queries, top_k, scope),
            on=lambda error: may_retry(error, until),
            attempts=ATTEMPTS,
            wait_max_s=LONGEST_WAIT_S,
        )

    async def _post(self, queries: Sequence[str], top_k: int, scope: Scope) -> SearchBatch:
        started = time.perf_counter()
        body = orjson.dumps({"queries": list(map(_as_taken, queries)), "top_k": top_k} | _scope_to_wire(scope))
        response = await self._wire.send("POST", "v1/retrieve", body)
        latency_ms = (time.perf_counter() - started) * 1000
        try:
            answer = RetrieveResponse.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise UpstreamUnavailable("The retriever's answer is not in the form of /v1/retrieve.") from error
        if len(answer.results) != len(queries):
            raise UpstreamUnavailable(f"The retriever answered {len(answer.results)} rows to {len(queries)} queries.")
        results = (
            SubQueryResult(query, tuple(map(passage_from_wire, row[:top_k])), latency_ms=latency_ms)
            for query, row in zip(queries, answer.results, strict=True)
        )
        return SearchBatch(tuple(results), answer.index.fingerprint, answer.index.ranking)


def _as_taken(query: str) -> str:
    """The query in a form that the retriever takes: a policy may write any, and what it writes is no fault of the retriever."""
    return query.encode("utf-8", "replace").decode().replace("\0", " ")[:MAX_QUERY_CHARACTERS]


def _scope_to_wire(scope: Scope) -> dict[str, Any]:
    """What the default leaves out."""
    named = {name: value for name, value in (("index", scope.index), ("method", scope.method)) if value}
    given = filter_to_wire(scope.filter)
    return named | ({"filter": given.model_dump(exclude_defaults=True)} if given else {})


def _is_down(error: ParallelSearchError) -> bool:
    """Nobody answered at all, or not in time, so asking once per query would only multiply the load and the wait."""
    cause = error.__cause__
    return isinstance(cause, httpx2.TransportError) or (isinstance(cause, Refusal) and cause.status in UNANSWERED)
