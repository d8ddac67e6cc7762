"""What endpoints are given: the state that the lifespan made, and the admin's say-so."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import Depends, Request

from servicekit.auth import require_admin
from trainer.checkpoints import Checkpoints
from trainer.progress import Progress
from trainer.service import TrainingRuns
from trainer.settings import TrainerSettings


class State(TypedDict):
    """Lives as long as the application."""

    settings: TrainerSettings
    runs: TrainingRuns
    progress: Progress
    checkpoints: Checkpoints


def training_runs(request: Request) -> TrainingRuns:
    runs: TrainingRuns = request.state.runs
    return runs


def run_progress(request: Request) -> Progress:
    progress: Progress = request.state.progress
    return progress


def run_checkpoints(request: Request) -> Checkpoints:
    checkpoints: Checkpoints = request.state.checkpoints
    return checkpoints


def admin(request: Request) -> None:
    require_admin(request, request.state.settings.admin_token)


Runs = Annotated[TrainingRuns, Depends(training_runs)]
RunProgress = Annotated[Progress, Depends(run_progress)]
RunCheckpoints = Annotated[Checkpoints, Depends(run_checkpoints)]
Admin = Depends(admin)
