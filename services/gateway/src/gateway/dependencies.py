"""What endpoints are given: the state that the lifespan made, and who calls.

All are coroutines, though they wait for nothing: FastAPI sends plain functions through a thread pool.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, TypedDict, cast

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
from servicekit.routes import until_answered

BEARER = HTTPBearer(auto_error=False, description="An API key, where the gateway is set up with keys.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]
"""For the document: the authenticator reads the header itself."""


class State(TypedDict):
    """Lives as long as the application."""

    settings: GatewaySettings
    answers: AnswerService
    authenticator: Authenticator
    limiter: Limiter
    store: TrajectoryStore | None
    trainer: httpx2.AsyncClient
    indexes: httpx2.AsyncClient


def state_of(request: Request) -> State:
    return cast(State, request.state._state)


async def answer_service(request: Request) -> AnswerService:
    return state_of(request)["answers"]


async def gateway_settings(request: Request) -> GatewaySettings:
    return state_of(request)["settings"]


async def known_caller(request: Request, _: Credentials = None) -> Caller:
    """Refuses whoever has no key where keys are needed."""
    caller = state_of(request)["authenticator"].caller(request.headers)
    metrics.CALLS.labels(caller.name).inc()
    return caller


async def admitted(request: Request, place: AsyncExitStack | None = None) -> Caller:
    """Who calls, counted against the caller's limits until the answer has been sent; for routes without dependencies.

    With `place` until that is left, which may be handed on.
    """
    caller = await known_caller(request)
    await (place or until_answered(request)).enter_async_context(state_of(request)["limiter"].one_request(caller))
    return caller


async def limited_caller(request: Request, _: Credentials = None) -> Caller:
    return await admitted(request)


Settings = Annotated[GatewaySettings, Depends(gateway_settings)]
Answers = Annotated[AnswerService, Depends(answer_service)]
KnownCaller = Annotated[Caller, Depends(known_caller)]
LimitedCaller = Annotated[Caller, Depends(limited_caller)]
