"""The routes that this service adds to vLLM's: the policy's identity, its weights, liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import SecretStr

from parallelsearch.errors import NotFound, ParallelSearchError
from parallelsearch.schemas.weights import PolicyInfo, WeightsRequest
from policy.state import PolicyState
from policy.weights import WeightChanger
from servicekit.auth import require_admin
from servicekit.errors import problem_route


def policy_router(state: PolicyState, changer: WeightChanger, admin_token: SecretStr | None) -> APIRouter:
    router = APIRouter(route_class=problem_route(ParallelSearchError))

    def admin(request: Request) -> None:
        require_admin(request, admin_token)

    @router.get("/v1/policy", tags=["policy"])
    async def policy() -> PolicyInfo:
        """Which policy is served, in which version, and how it wants to be asked."""
        return state.info()

    @router.get("/v1/policy/tokenizer", tags=["policy"])
    async def tokenizer() -> Response:
        """The tokenizer as a `tokenizer.json`, for clients that make token ids themselves."""
        if state.tokenizer is None:
            raise NotFound("This model's tokenizer has no tokenizer.json. Use /tokenize.")
        return Response(state.tokenizer.content, media_type="application/json")

    @router.post("/v1/policy/weights", tags=["policy"], dependencies=[Depends(admin)])
    async def change_weights(body: WeightsRequest) -> PolicyInfo:
        """Serves other weights of the same model (admin token). Answers when they serve; on any failure the old ones serve on."""
        return await changer.change(body)

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
