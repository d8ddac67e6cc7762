"""`/healthz` (the process lives) and `/readyz` (it can do its work), the same on every service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse

State = Literal["ready", "degraded", "starting", "failed"]


@dataclass(frozen=True)
class Readiness:
    """`degraded` still takes traffic (200); `starting` and `failed` do not (503). `checks` says what each part reports."""

    state: State
    checks: dict[str, str] = field(default_factory=dict)

    @property
    def status_code(self) -> int:
        return 200 if self.state in {"ready", "degraded"} else 503


Probe = Callable[[], Awaitable[Readiness]]


async def always_ready() -> Readiness:
    return Readiness("ready")


def health_router(ready: Probe) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        """Whether requests should be sent here, and what each dependency reports."""
        readiness = await ready()
        return JSONResponse({"status": readiness.state, "checks": readiness.checks}, readiness.status_code)

    return router
