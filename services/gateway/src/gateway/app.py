"""Puts the gateway together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from gateway.auth import Authenticator, Caller, load_keys
from gateway.dependencies import State
from gateway.endpoints import answers, chat
from gateway.headers import SecurityHeaders
from gateway.limits import Limiter
from gateway.service import AnswerService
from gateway.settings import GatewaySettings
from gateway.upstreams import REAL, Transports, Upstreams
from parallelsearch.errors import ParallelSearchError
from servicekit.app import create_app as create_service

DESCRIPTION = "Answers questions by decomposing them into sub-queries and searching these in parallel."


def create_app(settings: GatewaySettings, transports: Transports = REAL) -> FastAPI:
    """The application; `transports` lets tests stand in for policy and retriever."""
    upstreams = Upstreams(settings, transports)
    state = State(
        settings=settings,
        answers=AnswerService(settings, upstreams),
        authenticator=_authenticator(settings),
        limiter=Limiter(upstreams.redis),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        async with upstreams.kept_fresh():
            yield state

    app = create_service(
        "ParallelSearch gateway",
        errors=ParallelSearchError,
        lifespan=lifespan,
        ready=upstreams.readiness,
        max_body_bytes=settings.max_body_bytes,
        description=DESCRIPTION,
    )
    app.include_router(answers.router)
    app.include_router(chat.router)
    app.add_middleware(SecurityHeaders)
    if settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, allow_methods=["*"], allow_headers=["*"])
    return app


def _authenticator(settings: GatewaySettings) -> Authenticator:
    keys = load_keys(settings.api_keys_file) if settings.auth == "on" and settings.api_keys_file else None
    default = Caller("default", settings.key_requests_per_minute, settings.key_concurrent)
    return Authenticator(keys, settings.admin_token, default=default)
