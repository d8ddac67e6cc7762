"""What endpoints are given: the state that the lifespan made, and who calls.

All are coroutines, though they wait for nothing: FastAPI sends plain functions through a thread pool.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, TypedDict

import httpx2
from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from gateway import metrics
from gateway.auth import Authenticator, Caller
from gateway.limits import Limiter
from gateway.service import AnswerService
from gateway.settings import GatewaySettings
from gateway.store import TrajectoryStore

BEARER = HTTPBearer(auto_error=False, description="An API key, where the gateway is set up with keys.")


class State(TypedDict):
    """Lives as long as the application."""

    settings: GatewaySettings
    answers: AnswerService
    authenticator: Authenticator
    limiter: Limiter
    store: TrajectoryStore | None
    trainer: httpx2.AsyncClient
    indexes: httpx2.AsyncClient


async def answer_service(request: Request) -> AnswerService:
    service: AnswerService = request.state.answers
    return service


async def gateway_settings(request: Request) -> GatewaySettings:
    settings: GatewaySettings = request.state.settings
    return settings


async def known_caller(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None) -> Caller:
    """Refuses whoever has no key where keys are needed."""
    authenticator: Authenticator = request.state.authenticator
    caller = authenticator.caller(request.headers.get("authorization", ""))
    metrics.CALLS.labels(caller.name).inc()
    return caller


async def limited_caller(request: Request, caller: Annotated[Caller, Depends(known_caller)]) -> AsyncIterator[Caller]:
    """Counts the request against its caller's limits until its answer has been sent."""
    limiter: Limiter = request.state.limiter
    async with limiter.one_request(caller):
        yield caller


Settings = Annotated[GatewaySettings, Depends(gateway_settings)]
Answers = Annotated[AnswerService, Depends(answer_service)]
KnownCaller = Annotated[Caller, Depends(known_caller)]
LimitedCaller = Annotated[Caller, Depends(limited_caller)]
