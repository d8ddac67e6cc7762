"""Puts the trainer together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import httpx2
from fastapi import FastAPI

from parallelsearch.errors import ParallelSearchError
from parallelsearch.schemas.training import LauncherName
from servicekit.app import create_app as create_service
from trainer.checkpoints import Checkpoints
from trainer.dependencies import State
from trainer.endpoints import router
from trainer.jobs import JobBuilder
from trainer.launchers.interface import Launcher
from trainer.launchers.local import LocalLauncher
from trainer.launchers.ray import RayLauncher
from trainer.progress import Progress
from trainer.readiness import RecordProbe
from trainer.service import TrainingRuns
from trainer.settings import TrainerSettings
from trainer.store import RECORD, Store
from trainer.watch import Doctor, watch

DESCRIPTION = "Trains policies by reinforcement learning and cold starts, as local processes, Ray jobs or Kubernetes jobs."


def default_launchers(settings: TrainerSettings) -> dict[LauncherName, Launcher]:
    """Local always; the others where they are set up. Their libraries are imported only then."""
    launchers: dict[LauncherName, Launcher] = {
        LauncherName.LOCAL: LocalLauncher(grace_s=settings.cancel_grace_s, runs_per_gpu=settings.runs_per_gpu)
    }
    if settings.ray_address is not None:
        launchers[LauncherName.RAY] = RayLauncher(settings.ray_address)
    if settings.kubernetes is not None:
        from trainer.launchers.kubernetes import KubernetesLauncher

        launchers[LauncherName.KUBERNETES] = KubernetesLauncher(settings.kubernetes)
    return launchers


def create_app(
    settings: TrainerSettings,
    launchers: Mapping[LauncherName, Launcher] | None = None,
    policy_transport: httpx2.AsyncBaseTransport | None = None,
) -> FastAPI:
    """The application; launchers and the way to the policy can be stood in for."""

    ready = RecordProbe()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        store, jobs = Store(settings.runs_dir / RECORD), JobBuilder(settings)
        ready.store = store
        known = default_launchers(settings) if launchers is None else launchers
        runs = TrainingRuns(store, jobs, known, settings.max_running)
        progress = Progress(jobs)
        watching = asyncio.create_task(watch(runs, Doctor(runs, progress), settings.poll_s))
        yield State(settings=settings, runs=runs, progress=progress, checkpoints=Checkpoints(settings, jobs, policy_transport))
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        store.close()

    app = create_service(
        "ParallelSearch trainer",
        errors=ParallelSearchError,
        lifespan=lifespan,
        ready=ready,
        hosts=settings.hosts,
        description=DESCRIPTION,
    )
    app.include_router(router)
    return app
