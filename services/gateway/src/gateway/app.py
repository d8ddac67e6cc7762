"""Puts the gateway together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from gateway.dependencies import State
from gateway.endpoints import answers, chat
from gateway.service import AnswerService
from gateway.settings import GatewaySettings
from gateway.upstreams import REAL, Transports, Upstreams
from parallelsearch.errors import ParallelSearchError
from servicekit.app import create_app as create_service

DESCRIPTION = "Answers questions by decomposing them into sub-queries and searching these in parallel."


def create_app(settings: GatewaySettings, transports: Transports = REAL) -> FastAPI:
    """The application; `transports` lets tests stand in for policy and retriever."""
    upstreams = Upstreams(settings, transports)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        async with upstreams.kept_fresh():
            yield State(settings=settings, answers=AnswerService(settings, upstreams))

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
    return app
