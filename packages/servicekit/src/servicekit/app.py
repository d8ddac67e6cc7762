"""`create_app`: a FastAPI application with what every service has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from servicekit import metrics
from servicekit.errors import install_handlers
from servicekit.health import Probe, always_ready, health_router
from servicekit.hosts import Hosts
from servicekit.requests import RequestMiddleware

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def create_app(
    title: str,
    *,
    errors: type[Exception],
    lifespan: Lifespan | None = None,
    ready: Probe = always_ready,
    max_body_bytes: int = 1_000_000,
    larger_bodies: Mapping[str, int] | None = None,
    hosts: Hosts | None = None,
    description: str = "",
) -> FastAPI:
    """An application with request ids, problem+json, `/healthz`, `/readyz`, `/metrics` and `/docs`.

    `errors` is the base class whose instances are rendered as problems (see `servicekit.errors.Problem`); what `lifespan`
    yields becomes `request.state` (starlette's typed state). `larger_bodies` are the limits of paths by prefix, where they have
    their own. Other names than those of `hosts` are refused. The page at `/docs` brings its own scripts.
    """
    app = FastAPIOffline(title=title, version=version("parallelsearch"), description=description, lifespan=lifespan, redoc_url=None)
    app.add_middleware(RequestMiddleware, max_body_bytes=max_body_bytes, larger_bodies=larger_bodies, hosts=hosts)
    install_handlers(app, errors)
    app.include_router(health_router(ready))
    app.include_router(metrics.router)
    return app
