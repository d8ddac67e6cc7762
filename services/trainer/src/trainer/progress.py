"""How a run is getting on: the records of its rollouts and OpenRLHF's own metrics out of its log, one set per step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.schemas.training import ReinforcementSpec, StepMetrics, TrainingMetrics
from trainer.jobs import JobBuilder
from trainer.launchers.interface import LOG
from trainer.records import Rollouts
from trainer.step_metrics import steps_of
from trainer.store import Run

_STEP = re.compile(rb"Global step (\d+): \{(.*)\}")
_VALUE = re.compile(r"'([^']+)': (?:np\.float\d+\()?(-?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))")
OWN_NAMES = frozenset({"kl", "policy_loss", "actor_grad_norm", "actor_lr", "critic_loss", "ppo_kl", "vllm_kl"})


@dataclass(frozen=True)
class Progress:
    """Of OpenRLHF's metrics those that the records do not tell: losses, KL, learning rate and timings."""

    jobs: JobBuilder

    def metrics(self, run: Run, since: int = 0) -> TrainingMetrics:
        """Every step after `since`; values that are no number any more (nan, inf) are left out."""
        return TrainingMetrics(steps=[step for step in self.steps(run) if step.step > since])

    def steps(self, run: Run) -> list[StepMetrics]:
        """Of a run that goes on with another, numbered on from there, as its log says once the first step is made."""
        folder, values = self.jobs.folder(run.id), dict[int, dict[str, float]]()
        for step, found in log_metrics(folder / LOG):
            values.setdefault(step, {}).update(found)
        resumed = run.spec.checkpoints.resume_from is not None
        if isinstance(run.spec, ReinforcementSpec) and (values or not resumed):
            rollouts = run.spec.prompts_per_step * run.spec.samples_per_prompt
            before = min(values) - 1 if resumed else 0
            for told in steps_of(Rollouts(folder).facts(), rollouts):
                values.setdefault(before + told.step, {}).update(told.values)
        return [StepMetrics(step=step, values=values[step]) for step in sorted(values)]


def log_metrics(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The lines in which OpenRLHF tells the metrics of a step."""
    if not path.is_file():
        return
    with path.open("rb") as log:
        for line in log:
            if match := _STEP.search(line):
                numbers = {name: float(value) for name, value in _VALUE.findall(match[2].decode(errors="replace"))}
                yield int(match[1]), {name: value for name, value in numbers.items() if math.isfinite(value) and _is_its_own(name)}


def _is_its_own(name: str) -> bool:
    return name in OWN_NAMES or name.startswith(("timing/", "rollout/"))
