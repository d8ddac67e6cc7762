"""The client of the retriever: one batch for all sub-queries of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import httpx2
import orjson
import stamina
from pydantic import ValidationError

from parallelsearch.clients.http import check, create_client, named
from parallelsearch.errors import ParallelSearchError, RetrievalFailed, UpstreamUnavailable
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import SubQueryResult
from parallelsearch.schemas.retrieval import IndexModel, RetrieveResponse
from parallelsearch.schemas.trajectories import passage_from_wire

NAME = "retriever"
ATTEMPTS = 3


class RetrieverClient:
    """Implements `SearchBackend` over HTTP. Searching changes nothing, so failures are tried again (with jitter)."""

    def __init__(self, base_url: str, *, timeout_s: float = 10.0, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._http = create_client(base_url, timeout_s=timeout_s, transport=transport)
        # The retriever drops what nobody waits for any more.
        self._headers = {"content-type": "application/json", "x-deadline-ms": str(max(1, int(timeout_s * 1000)))}

    async def close(self) -> None:
        await self._http.aclose()

    async def index(self) -> IndexModel:
        """What the retriever serves.

        Raises:
            UpstreamUnavailable: it cannot be reached or answers badly.
        """
        async with named(NAME):
            response = check(await self._http.get("v1/index"), NAME)
        try:
            return IndexModel.model_validate_json(response.content)
        except ValidationError as error:
            raise UpstreamUnavailable("The retriever's answer to /v1/index is not an index description.") from error

    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        """One request for all; if it fails for a reason of its own, each query alone, so that one cannot fail the others."""
        if not queries:
            return SearchBatch(())
        try:
            return await self._retrieve(queries, top_k)
        except ParallelSearchError as error:
            if len(queries) == 1 or _is_down(error):
                raise RetrievalFailed(error.detail, retry_after_s=error.retry_after_s or 2) from error
        return await self._one_by_one(queries, top_k)

    async def _one_by_one(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        async def alone(query: str) -> SearchBatch:
            try:
                return await self._retrieve([query], top_k)
            except ParallelSearchError:
                return SearchBatch((SubQueryResult(query, failed=True),))

        batches = await asyncio.gather(*map(alone, queries))
        results = tuple(batch.results[0] for batch in batches)
        if all(result.failed for result in results):
            raise RetrievalFailed("The retriever failed for every sub-query.", retry_after_s=2)
        return SearchBatch(results, next(batch.fingerprint for batch in batches if batch.fingerprint))

    async def _retrieve(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        retrying = stamina.retry_context(on=UpstreamUnavailable, attempts=ATTEMPTS, wait_initial=0.05, wait_max=0.5, timeout=None)
        async for attempt in retrying:
            with attempt:
                return await self._post(queries, top_k)
        raise AssertionError("unreachable: the last attempt raises")

    async def _post(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        started = time.perf_counter()
        body = orjson.dumps({"queries": list(queries), "top_k": top_k})
        async with named(NAME):
            response = await self._http.post("v1/retrieve", content=body, headers=self._headers)
        check(response, NAME)
        latency_ms = (time.perf_counter() - started) * 1000
        try:
            answer = RetrieveResponse.model_validate_json(response.content)
        except ValidationError as error:
            raise UpstreamUnavailable("The retriever's answer is not in the form of /v1/retrieve.") from error
        if len(answer.results) != len(queries):
            raise UpstreamUnavailable(f"The retriever answered {len(answer.results)} rows to {len(queries)} queries.")
        results = (
            SubQueryResult(query, tuple(map(passage_from_wire, row)), latency_ms=latency_ms)
            for query, row in zip(queries, answer.results, strict=True)
        )
        return SearchBatch(tuple(results), answer.index.fingerprint)


def _is_down(error: ParallelSearchError) -> bool:
    """Nobody answered at all, so asking once per query would only multiply the wait."""
    return isinstance(error.__cause__, httpx2.TransportError)
