"""The watch over all runs: moves them along, and looks at the health of those that are running."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from parallelsearch.errors import ParallelSearchError
from parallelsearch.schemas.training import ReinforcementSpec, RunState
from trainer import metrics
from trainer.health import diagnose
from trainer.progress import Progress
from trainer.service import TrainingRuns
from trainer.store import Run

log = structlog.get_logger(__name__)


@dataclass
class Doctor:
    """Looks at a run again only when it has made a step."""

    runs: TrainingRuns
    progress: Progress
    _seen: dict[str, int] = field(default_factory=dict)

    def visit(self) -> None:
        """Shows the steps of running runs in the metrics; flags, or as configured stops, those in which a signature shows."""
        metrics.show_states(self.runs.store.counts())
        running = self.runs.store.list(RunState.RUNNING)
        for run in running:
            self.runs.apart(self._look_at, run)
        for run_id in set(self._seen) - {run.id for run in running}:
            del self._seen[run_id]
            metrics.forget(run_id)

    def _look_at(self, run: Run) -> None:
        steps = self.progress.steps(run)
        if not steps or steps[-1].step == self._seen.get(run.id):
            return
        health = run.spec.health if isinstance(run.spec, ReinforcementSpec) else None
        flags = diagnose(steps, health) if health else ()
        metrics.show_step(run.id, steps[-1], len(flags))
        if flags != run.flags:
            log.warning("run_flagged", run=run.id, step=steps[-1].step, flags=flags)
            self.runs.store.set_flags(run, flags)
        if flags and health and health.action == "stop":
            self.runs.end(run, RunState.FAILED, f"Stopped at step {steps[-1].step}: {'; '.join(flags)}.")
        # Last, so that what did not work is tried again before the next step.
        self._seen[run.id] = steps[-1].step


async def watch(runs: TrainingRuns, doctor: Doctor, every_s: float) -> None:
    """One round after the other until it is cancelled; a round that fails is logged and tried again."""
    while True:
        try:
            await asyncio.to_thread(runs.advance)
            await asyncio.to_thread(doctor.visit)
        except ParallelSearchError as error:
            log.warning("watch_round_failed", detail=error.detail)
        except Exception:  # the watch must outlive any single fault
            log.exception("watch_round_failed")
        await asyncio.sleep(every_s)
