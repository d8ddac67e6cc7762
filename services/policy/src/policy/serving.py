"""From settings to a running server: prepares the bundled policy, checks the plan, and hands over to vLLM."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
from fastapi import FastAPI

from policy import liveness, metrics
from policy.bundle import Bundle, bundled_policy
from policy.candidates import Verifier
from policy.commands import CommandGuard
from policy.endpoints import policy_router
from policy.engines import setup
from policy.engines.interface import Engine
from policy.engines.lifetime import end_with_parent
from policy.model_shape import read_shape
from policy.planning import Host, Plan, find_source, make_plan
from policy.preparation import is_prepared, prepared_dir
from policy.progress import phase, say
from policy.settings import BUNDLED, CacheSettings, PolicySettings
from policy.special_tokens import SpecialTokenMiddleware
from policy.staging import Staging
from policy.state import PolicyState
from policy.versions import VersionMiddleware
from policy.weights import Limits, WeightChanger
from servicekit.logs import configure_logs
from servicekit.preflight import require_port, require_writable
from servicekit.requests import RequestMiddleware
from servicekit.tracing import TraceMiddleware, Tracing

FIRST_TOKEN_TIMEOUT_S = 120.0


def serve(settings: PolicySettings, cache: CacheSettings) -> None:
    """Blocks until the server has ended.

    Raises:
        ConfigurationError: it cannot work as it is set up.
    """
    configure_logs(settings.log_level, settings.log_format)
    require_port(settings)
    require_writable(cache.models_dir, "PARALLELSEARCH_CACHE_DIR")
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
        state = PolicyState(plan.served, engine)
        changer = make_changer(state, plan, settings, bundle, cache.models_dir / "swaps" / str(settings.port))
        tracing = Tracing("policy", otlp_endpoint=settings.otlp_endpoint, file=settings.trace_file)
        add_policy(app, state, changer, settings, tracing)
        async with watched(state):
            say(f"ready on http://{settings.host}:{settings.port}")
            yield
        await asyncio.to_thread(tracing.close)

    vllm_server.run(setup.command_line(plan.spec), extend)


def make_changer(state: PolicyState, plan: Plan, settings: PolicySettings, bundle: Bundle, swaps: Path) -> WeightChanger:
    """What changes the weights of the policy that `plan` serves; `swaps` is this server's own folder."""
    initial = local_directory(plan)
    bases = [(plan.served.model, initial)]
    if settings.checkpoint == BUNDLED:
        bases.append((bundle.base_name, bundle.base.path))
    verifier = Verifier(settings.checkpoint_roots, initial, read_shape(initial), tuple(bases))
    staging = Staging(swaps)
    staging.empty()
    return WeightChanger(state, verifier, staging, initial, Limits(drain_s=settings.drain_s))


def local_directory(plan: Plan) -> Path:
    """Where the files of the served model lie; those of a hub model have been downloaded by the engine."""
    if plan.offline:
        return Path(plan.spec.model)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(plan.spec.model, local_files_only=True))


def add_policy(
    app: FastAPI,
    state: PolicyState,
    changer: WeightChanger,
    settings: PolicySettings,
    tracing: Tracing | None = None,
) -> None:
    """Adds this service's routes and middleware to vLLM's application; the last one added is the outermost."""
    app.include_router(policy_router(state, changer, settings.admin_token))
    app.add_middleware(SpecialTokenMiddleware, tokens=state.engine.special_tokens())
    app.add_middleware(VersionMiddleware, state=state)
    app.add_middleware(CommandGuard, admin_token=settings.admin_token)
    app.add_middleware(RequestMiddleware, max_body_bytes=settings.max_body_bytes, hosts=settings.hosts)
    if tracing is not None and tracing.is_on:
        app.add_middleware(TraceMiddleware, tracer=tracing.tracer)
    metrics.VERSION.labels(state.served.model).set(state.version)


@asynccontextmanager
async def watched(state: PolicyState) -> AsyncIterator[None]:
    watcher = asyncio.create_task(liveness.watch(state))
    try:
        yield
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


def ensure_prepared(bundle: Bundle, cache: CacheSettings) -> None:
    """Prepares the bundled policy in a process of its own, whose memory goes back before the engine loads."""
    if is_prepared(bundle, cache.models_dir):
        return
    command = [sys.executable, "-m", "policy", "prepare"]
    code = subprocess.run(command, check=False, preexec_fn=end_with_parent).returncode
    if code:
        raise SystemExit(code)
