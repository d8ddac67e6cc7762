"""The method `web`, which goes past the batcher, and what is missing where a method is not there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from parallelsearch.clients.web_search import WebSearchClient
from parallelsearch.errors import DeadlineExceeded, InvalidInput
from parallelsearch.rollout.types import EVERYWHERE, Passage, Scope
from parallelsearch.schemas.retrieval import IndexModel, Method
from retriever.batcher import Timings

_NO_WORDS = "this index serves `dense` only. Build it with --bm25."
LACKING: dict[Method, str] = {
    "bm25": _NO_WORDS,
    "hybrid": _NO_WORDS,
    "rerank": "no cross-encoder is configured here. Set RETRIEVER_RERANKER.",
    "web": "no web search is configured here. Set RETRIEVER_WEB_PROVIDER.",
}


async def search_web(
    web: WebSearchClient | None, queries: Sequence[str], top_k: int, scope: Scope, deadline_s: float
) -> tuple[list[tuple[Passage, ...]], Timings, IndexModel]:
    """At most `top_k` passages per query, in the order of the queries. The owner's thread has no part in it.

    Raises:
        InvalidInput: no web search is configured, or an index or a filter was asked for as well.
        DeadlineExceeded: it took longer than `deadline_s`.
        UpstreamUnavailable, Overloaded: as `WebSearchClient.search`.
    """
    if web is None:
        raise InvalidInput(f"method: web was asked for, but {LACKING['web']}")
    if scope != EVERYWHERE:
        raise InvalidInput("method: web searches no index; leave `index` and `filter` out.")
    started = time.perf_counter()
    try:
        async with asyncio.timeout(deadline_s):
            rows = await web.search(queries, top_k)
    except TimeoutError:
        raise DeadlineExceeded(f"The web search did not answer within {deadline_s:g} s.") from None
    described = IndexModel(
        name="web",
        fingerprint=f"web-{web.provider}",
        encoder="",
        dimension=0,
        metric="rank",
        kind="web",
        passages=0,
        methods=("web",),
    )
    return rows, Timings(search_s=time.perf_counter() - started), described
