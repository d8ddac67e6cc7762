"""The routes that this service adds to vLLM's: the policy's identity, liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from parallelsearch.schemas.weights import PolicyInfo
from policy.state import PolicyState


def policy_router(state: PolicyState) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/policy", tags=["policy"])
    async def policy() -> PolicyInfo:
        """Which policy is served, in which version, and how it wants to be asked."""
        served = state.served
        return PolicyInfo(
            model=served.model,
            version=str(state.version),
            step=state.step,
            engine=state.engine.name,
            device=served.device.value,
            context_length=state.engine.context_length,
            layout=served.layout,
            turn_tokens=served.turn_tokens,
            special_tokens=list(state.engine.special_tokens),
        )

    @router.get("/healthz", tags=["health"])
    async def healthz() -> JSONResponse:
        """Whether the process should live on: 503 once the engine has died or makes no progress."""
        failure = state.failure()
        return JSONResponse({"status": failure or "ok"}, 503 if failure else 200)

    @router.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Whether it can generate; the server only listens once it has done so."""
        readiness = state.readiness()
        return JSONResponse({"status": readiness.state, "checks": readiness.checks}, readiness.status_code)

    return router
