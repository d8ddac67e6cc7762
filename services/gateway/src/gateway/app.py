"""Puts the gateway together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from gateway.auth import Authenticator, Caller, load_keys
from gateway.dependencies import State
from gateway.endpoints import answers, chat, indexes, stored, training
from gateway.endpoints.examples import examples_router
from gateway.endpoints.page import page_router
from gateway.headers import SecurityHeaders
from gateway.limits import Limiter
from gateway.mcp_endpoint import McpEndpoint
from gateway.openai_errors import OpenAIErrors
from gateway.service import AnswerService
from gateway.settings import GatewaySettings
from gateway.store import TrajectoryStore
from gateway.upstreams import REAL, Transports, Upstreams
from parallelsearch.clients.http import create_client
from parallelsearch.errors import ParallelSearchError
from servicekit.app import create_app as create_service
from servicekit.tracing import TraceMiddleware, Tracing

DESCRIPTION = "Answers questions by decomposing them into sub-queries and searching these in parallel."
UPLOAD_TIMEOUT_S = 120.0


def create_app(settings: GatewaySettings, transports: Transports = REAL) -> FastAPI:
    """The application; `transports` lets tests stand in for policy and retriever."""
    tracing = Tracing("gateway", otlp_endpoint=settings.otlp_endpoint, file=settings.trace_file)
    upstreams = Upstreams(settings, transports, tracing)
    store = TrajectoryStore(settings.store_path, retention_days=settings.store_retention_days) if settings.store_path else None
    state = State(
        settings=settings,
        answers=AnswerService(settings, upstreams, store, tracing),
        authenticator=_authenticator(settings),
        limiter=Limiter(upstreams.redis),
        store=store,
        trainer=create_client(settings.trainer_url, timeout_s=settings.trainer_timeout_s, transport=transports.trainer),
        indexes=create_client(settings.retriever_url, timeout_s=UPLOAD_TIMEOUT_S, transport=transports.retriever),
    )

    mcp = McpEndpoint(state["answers"], state["authenticator"], state["limiter"])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, tracing.close)
            await stack.enter_async_context(upstreams.kept_fresh())
            stack.push_async_callback(state["trainer"].aclose)
            stack.push_async_callback(state["indexes"].aclose)
            await stack.enter_async_context(mcp.running())
            if store is not None:
                await stack.enter_async_context(store.open())
            stack.push_async_callback(state["answers"].streams.close)
            yield state

    app = create_service(
        "ParallelSearch gateway",
        errors=ParallelSearchError,
        lifespan=lifespan,
        ready=upstreams.readiness,
        max_body_bytes=settings.max_body_bytes,
        larger_bodies={f"{indexes.PREFIX}/": settings.max_upload_bytes},
        description=DESCRIPTION,
    )
    routers = (answers.direct, answers.router, stored.router, chat.router, training.router, indexes.router)
    for router in (*routers, examples_router(), page_router()):
        app.include_router(router)
    app.router.routes.append(mcp.route)
    app.add_middleware(OpenAIErrors)
    app.add_middleware(SecurityHeaders)
    if tracing.is_on:
        app.add_middleware(TraceMiddleware, tracer=tracing.tracer)
    if settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, allow_methods=["*"], allow_headers=["*"])
    return app


def _authenticator(settings: GatewaySettings) -> Authenticator:
    keys = load_keys(settings.api_keys_file) if settings.auth == "on" and settings.api_keys_file else None
    default = Caller("default", settings.key_requests_per_minute, settings.key_concurrent)
    return Authenticator(keys, settings.admin_token, default=default, hosts=settings.hosts)
