"""How a run is getting on: OpenRLHF's own metrics out of its log, one set per step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.schemas.training import StepMetrics, TrainingMetrics
from trainer.jobs import JobBuilder
from trainer.store import Run

_STEP = re.compile(rb"Global step (\d+): \{(.*)\}")
_VALUE = re.compile(r"'([^']+)': (?:np\.float\d+\()?(-?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))")


@dataclass(frozen=True)
class Progress:
    jobs: JobBuilder

    def metrics(self, run: Run, since: int = 0) -> TrainingMetrics:
        """Every step after `since`; values that are no number any more (nan, inf) are left out."""
        values: dict[int, dict[str, float]] = {}
        for step, found in log_metrics(self.jobs.folder(run.id) / "output.log"):
            values.setdefault(step, {}).update(found)
        return TrainingMetrics(steps=[StepMetrics(step=step, values=values[step]) for step in sorted(values) if step > since])


def log_metrics(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The lines in which OpenRLHF tells the metrics of a step."""
    if not path.is_file():
        return
    with path.open("rb") as log:
        for line in log:
            if match := _STEP.search(line):
                numbers = {name: float(value) for name, value in _VALUE.findall(match[2].decode(errors="replace"))}
                yield int(match[1]), {name: value for name, value in numbers.items() if math.isfinite(value)}
