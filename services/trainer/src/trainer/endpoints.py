"""`/v1/training-runs`: submitting, watching and cancelling runs; promoting what they learnt. Writing needs the admin token."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse

from parallelsearch.schemas.training import (
    MAX_LISTED,
    CheckpointList,
    DryRun,
    Promotion,
    RunState,
    TrainingMetrics,
    TrainingRun,
    TrainingRunList,
    TrainingRunSpec,
)
from trainer.dependencies import Admin, RunCheckpoints, RunProgress, Runs
from trainer.logs import begin, follow, read_all
from trainer.store import Unread

router = APIRouter(prefix="/v1/training-runs", tags=["training runs"])
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200)]
States = Annotated[tuple[RunState, ...], Query(description="Only runs in this state, or in one of several: `state=a&state=b`.")]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]
Cursor = Annotated[str | None, Query(min_length=1, max_length=64, description="`next` of the page before.")]


@router.post("", status_code=201, dependencies=[Admin])
def submit(spec: TrainingRunSpec, runs: Runs, idempotency_key: IdempotencyKey = None) -> TrainingRun:
    """Queues a run. With the same `Idempotency-Key`, the run that was queued the first time."""
    return runs.submit(spec, idempotency_key).to_wire()


@router.post("/dry-run", dependencies=[Admin])
def dry_run(spec: TrainingRunSpec, runs: Runs) -> DryRun:
    """The exact command that a submission would start; nothing is started."""
    return runs.dry_run(spec)


@router.get("")
def list_runs(runs: Runs, state: States = (), limit: Limit = 100, cursor: Cursor = None) -> TrainingRunList:
    """Runs, the newest first; `next` is the `cursor` of those that follow."""
    page = runs.store.page(state, limit=limit, after=cursor)
    return TrainingRunList(runs=[run.to_wire() for run in page.runs], next=page.next)


@router.get("/{run_id}")
def show(run_id: str, runs: Runs) -> TrainingRun:
    return runs.get(run_id).to_wire()


@router.delete("/{run_id}", response_model=TrainingRun, dependencies=[Admin])
def cancel(run_id: str, runs: Runs) -> TrainingRun | Response:
    """Ends the run and all of its processes; what it wrote stays. Of one of another version the `spec` is as it was submitted."""
    ended = runs.cancel(run_id)
    return Response(ended.to_json(), media_type="application/json") if isinstance(ended, Unread) else ended.to_wire()


@router.get("/{run_id}/logs")
async def logs(run_id: str, runs: Runs, follow_: Annotated[bool, Query(alias="follow")] = False) -> StreamingResponse:
    """The run's output as text; with `follow`, what is still to come until the run ends."""
    run = await to_thread(runs.get, run_id)
    await begin(runs, run)
    parts = follow(runs, run) if follow_ else read_all(runs, run)
    return StreamingResponse(parts, media_type="text/plain; charset=utf-8")


@router.get("/{run_id}/metrics")
def metrics(run_id: str, runs: Runs, progress: RunProgress, since: Annotated[int, Query(ge=0)] = 0) -> TrainingMetrics:
    """Metrics of each step after `since`."""
    return progress.metrics(runs.get(run_id), since)


@router.get("/{run_id}/checkpoints")
def checkpoints(run_id: str, runs: Runs, found: RunCheckpoints) -> CheckpointList:
    return CheckpointList(checkpoints=found.list(runs.get(run_id)))


@router.post("/{run_id}/checkpoints/{step}/promote", dependencies=[Admin])
async def promote(run_id: str, step: int, runs: Runs, found: RunCheckpoints) -> Promotion:
    """Has the policy service load the checkpoint, which bumps its version."""
    return await found.promote(runs.get(run_id), step)
