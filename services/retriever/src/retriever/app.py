"""Puts the retriever's application together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from parallelsearch.errors import ParallelSearchError
from retriever.batcher import BatchLimits
from retriever.command_arguments import ADMIN_TOKEN, RETRIEVER_URL
from retriever.documents.jobs import DocumentJobs
from retriever.documents_endpoints import following_uploads
from retriever.documents_endpoints import router as documents_router
from retriever.encoders.identity import LoadedEncoder
from retriever.endpoints import State, direct, router
from retriever.index.opened import OpenIndex, open_index
from retriever.places import IndexPlaces
from retriever.ranking import ranking_of
from retriever.reranking import Reranker
from retriever.service import Extras, Retriever
from retriever.settings import RetrieverSettings
from servicekit.app import create_app as create_service
from servicekit.tracing import TraceMiddleware, Tracing


def open_retriever(settings: RetrieverSettings) -> Retriever:
    """Loads encoder and index before any port is bound: a service that cannot search never takes a request.

    Raises:
        ConfigurationError, IndexMismatch: see `open_index`.
    """
    limits = BatchLimits(settings.max_batch, settings.max_queued, settings.deadline_s, settings.window_ms / 1000)

    def opener(folder: Path, *, is_default: bool, loaded: Sequence[LoadedEncoder]) -> OpenIndex:
        encoder = settings.encoder if is_default else None  # the others say themselves where theirs is
        return open_index(
            folder, encoder, settings.precision, settings.milvus, settings.gpu, settings.encoder_device, loaded=loaded
        )

    places = IndexPlaces(settings.index, settings.indexes, opener, settings.serve_uploads)
    places.check()
    reranker = None
    if settings.reranker is not None:
        reranker = Reranker(settings.reranker, settings.rerank_candidates, settings.encoder_device)
    extras = Extras(reranker, settings.web, ranking_of(settings, reranker))
    return Retriever(places, limits, settings.cached_queries, settings.method, settings.watch_s, extras)


def create_app(settings: RetrieverSettings, retriever: Retriever) -> FastAPI:
    tracing = Tracing("retriever", otlp_endpoint=settings.otlp_endpoint, file=settings.trace_file)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        await retriever.start()
        jobs = DocumentJobs(retriever.reload_in_turn, own_address(settings))
        jobs.start()
        if settings.admin_token is not None:  # else nothing is taken in
            await asyncio.to_thread(retriever.places.drop_left_over)
            for name in await asyncio.to_thread(retriever.places.behind):
                jobs.add(following_uploads(retriever, name))
        try:
            yield State(retriever=retriever, jobs=jobs, default_top_k=settings.default_top_k, admin_token=settings.admin_token)
        finally:
            await jobs.stop()
            await retriever.stop()
            await asyncio.to_thread(tracing.close)

    app = create_service(
        "ParallelSearch retriever",
        errors=ParallelSearchError,
        lifespan=lifespan,
        ready=retriever.readiness,
        max_body_bytes=settings.max_body_bytes,
        hosts=settings.hosts,
        description="Encoder, index and corpus behind one batcher.",
    )
    app.include_router(direct)
    app.include_router(router)
    app.include_router(documents_router)
    if tracing.is_on:
        app.add_middleware(TraceMiddleware, tracer=tracing.tracer)
    return app


def own_address(settings: RetrieverSettings) -> dict[str, str]:
    """For the commands that change documents, which have this service encode."""
    if settings.admin_token is None:
        return {}
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host else host
    return {RETRIEVER_URL: f"http://{host}:{settings.port}", ADMIN_TOKEN: settings.admin_token.get_secret_value()}
