"""From settings to a running server: prepares the bundled policy, checks the plan, and hands over to vLLM."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
from fastapi import FastAPI

from policy import preflight
from policy.bundle import Bundle, bundled_policy
from policy.endpoints import policy_router
from policy.engines import setup
from policy.engines.interface import Engine
from policy.planning import Host, find_source, make_plan
from policy.preparation import is_prepared, prepared_dir
from policy.progress import phase, say
from policy.settings import BUNDLED, CacheSettings, PolicySettings
from policy.state import PolicyState
from policy.versions import VersionMiddleware
from servicekit.logs import configure_logs
from servicekit.requests import RequestMiddleware

FIRST_TOKEN_TIMEOUT_S = 120.0


def serve(settings: PolicySettings, cache: CacheSettings) -> None:
    """Blocks until the server has ended.

    Raises:
        ConfigurationError: it cannot work as it is set up.
    """
    configure_logs(settings.log_level, settings.log_format)
    preflight.check_port(settings.host, settings.port)
    device = setup.choose_device(settings.engine, setup.installed_device(setup.installed_versions()))
    bundle = bundled_policy()
    if settings.checkpoint == BUNDLED:
        ensure_prepared(bundle, cache)
    host = Host(device, len(os.sched_getaffinity(0)), psutil.virtual_memory().available)
    plan = make_plan(settings, find_source(settings, bundle, prepared_dir(bundle, cache.models_dir)), host)
    os.environ.update(setup.environment(plan.spec, cores=host.cores, offline=plan.offline, log_level=settings.log_level))
    say(f"serving {plan.served.model} on {device.value} from {plan.spec.model}")
    with phase("importing vLLM"):
        from policy.engines import vllm_server

    @asynccontextmanager
    async def extend(app: FastAPI, engine: Engine) -> AsyncIterator[None]:
        with phase("generating a first token"):
            await asyncio.wait_for(engine.probe(), FIRST_TOKEN_TIMEOUT_S)
        add_policy(app, PolicyState(plan.served, engine), max_body_bytes=settings.max_body_bytes)
        say(f"ready on http://{settings.host}:{settings.port}")
        yield

    vllm_server.run(setup.command_line(plan.spec), extend)


def add_policy(app: FastAPI, state: PolicyState, *, max_body_bytes: int) -> None:
    """Adds this service's routes and middleware to vLLM's application."""
    app.include_router(policy_router(state))
    app.add_middleware(VersionMiddleware, state=state)
    app.add_middleware(RequestMiddleware, max_body_bytes=max_body_bytes)


def ensure_prepared(bundle: Bundle, cache: CacheSettings) -> None:
    """Prepares the bundled policy in a process of its own, whose memory goes back before the engine loads."""
    if is_prepared(bundle, cache.models_dir):
        return
    code = subprocess.run([sys.executable, "-m", "policy", "prepare"], check=False).returncode
    if code:
        raise SystemExit(code)
