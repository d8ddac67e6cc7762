"""The canary: asks labelled questions on a schedule and exports what the failure-signature alerts read.

All gauges are over the last full round; those by `kind` carry one of the kinds of question.

| metric | what |
|---|---|
| `parallelsearch_canary_exact_match{kind}` | share of right answers |
| `parallelsearch_canary_decomposed{kind}` | share of questions whose first search held several sub-queries |
| `parallelsearch_canary_decomposition_accuracy{kind}` | share that was decomposed as labelled |
| `parallelsearch_canary_searches{kind}` | search rounds per question |
| `parallelsearch_canary_evidence_found{kind}` | share whose evidence was retrieved |
| `parallelsearch_canary_wrong_although_evidence{kind}` | of those, the share answered wrong |
| `parallelsearch_canary_seconds{quantile}` | wall clock of an answer |
| `parallelsearch_canary_questions{kind}` | questions in the round |
| `parallelsearch_canary_answers_total{stop_reason}` | rollouts by how they ended |
| `parallelsearch_canary_rounds_total{outcome}` | rounds that were `done` or `failed` |
| `parallelsearch_canary_last_round_timestamp_seconds` | when the last round was done: alert when it grows old |
| `parallelsearch_canary_interval_seconds` | from the beginning of a round to that of the next |
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from parallelsearch.errors import ParallelSearchError
from parallelsearch.evaluation.asking import Asker
from parallelsearch.evaluation.measuring import Measurement, measure
from parallelsearch.evaluation.metrics import BY_NAME, QUANTILES
from parallelsearch.evaluation.plan import Cell, Job, Limits
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.statistics import ratios
from parallelsearch.evaluation.table import Columns, tabulate
from parallelsearch.rollout.types import Kind, Mode
from parallelsearch.schemas.trajectories import trajectory_from_wire

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PREFIX = "parallelsearch_canary_"
GAUGES = {
    "exact_match": "exact_match",
    "decomposed": "decomposed",
    "decomposition_accuracy": "decomposition_accuracy",
    "searches": "search_rounds",
    "evidence_found": "evidence_found",
    "wrong_although_evidence": "wrong_although_evidence",
}
"""Name of the gauge, and the metric of `metrics` that it shows."""


class CanaryMetrics:
    """The metrics above, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge

        self._by_kind = {
            name: Gauge(PREFIX + name, BY_NAME[metric].definition, ["kind"], registry=registry) for name, metric in GAUGES.items()
        }
        self._questions = Gauge(f"{PREFIX}questions", "Questions in the last round.", ["kind"], registry=registry)
        self._seconds = Gauge(f"{PREFIX}seconds", "Wall clock of an answer in the last round.", ["quantile"], registry=registry)
        self._answers = Counter(f"{PREFIX}answers_total", "Rollouts by how they ended.", ["stop_reason"], registry=registry)
        self._rounds = Counter(f"{PREFIX}rounds_total", "Rounds by outcome.", ["outcome"], registry=registry)
        self._last = Gauge(f"{PREFIX}last_round_timestamp_seconds", "When the last round was done.", registry=registry)
        self._interval = Gauge(f"{PREFIX}interval_seconds", "From the beginning of a round to that of the next.", registry=registry)
        for outcome in ("done", "failed"):
            self._rounds.labels(outcome)

    def every(self, interval_s: float) -> None:
        self._interval.set(interval_s)

    def failed(self) -> None:
        self._rounds.labels("failed").inc()

    def done(self, columns: Columns, now: float) -> None:
        """Shows a round. A metric that is not defined over it (no label, no evidence found) is taken down, not kept."""
        import numpy as np

        for kind in Kind:
            places = [place for place, question in enumerate(columns.questions) if question.kind is kind]
            self._show(kind, columns.take(places))
        for label, q in QUANTILES.items():
            self._seconds.labels(label).set(float(np.quantile(columns.column("total_ms"), q)) / 1000)
        for reason, count in Counter(columns.stop_reasons).items():
            self._answers.labels(reason.value).inc(count)
        self._rounds.labels("done").inc()
        self._last.set(now)

    def _show(self, kind: Kind, columns: Columns) -> None:
        values = dict(zip(BY_NAME, ratios(columns.tops, columns.bottoms), strict=True))
        for name, gauge in self._by_kind.items():
            value = values[GAUGES[name]]
            if value is None:
                gauge.remove_by_labels({"kind": kind.value})
            else:
                gauge.labels(kind.value).set(value)
        self._questions.labels(kind.value).set(len(columns))


class Canary:
    """Asks the same questions round after round, a few at a time so as not to be the load it watches for."""

    def __init__(
        self,
        questions: Sequence[Question],
        asker: Asker,
        metrics: CanaryMetrics,
        limits: Limits,
        *,
        mode: Mode = Mode.PARALLEL,
        model: str = "",
        concurrency: int = 2,
    ) -> None:
        self._jobs = [Job(Cell(question.set_name, mode, model), question) for question in questions]
        self._asker = asker
        self._metrics = metrics
        self._limits = limits
        self._concurrency = concurrency

    async def round(self) -> Columns:
        """Asks all questions once and shows the outcome.

        Raises:
            ParallelSearchError: the platform could not be asked; the round counts as failed and the gauges stay.
        """
        places = asyncio.Semaphore(self._concurrency)
        try:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(self._ask(job, places)) for job in self._jobs]
        except ExceptionGroup as errors:
            self._metrics.failed()
            raise errors.exceptions[0] from errors
        columns = tabulate(task.result() for task in asked)
        self._metrics.done(columns, time.time())
        return columns

    async def _ask(self, job: Job, places: asyncio.Semaphore) -> Measurement:
        async with places:
            trajectory = await self._asker.ask(job, self._limits)
        return measure(job.question, trajectory_from_wire(trajectory))

    async def run(self, interval_s: float, say: Callable[[str], None], *, rounds: int | None = None) -> None:
        """Rounds for ever (or so many), one beginning every `interval_s` seconds, later if one takes longer."""
        done = 0
        self._metrics.every(interval_s)
        while rounds is None or done < rounds:
            started = time.monotonic()
            try:
                columns = await self.round()
            except ParallelSearchError as error:
                say(f"round failed: {error.detail}")
            else:
                right = int(columns.column("exact_match").sum())
                say(f"round done: {right} of {len(columns)} right in {time.monotonic() - started:.1f} s")
            done += 1
            if rounds is None or done < rounds:
                await asyncio.sleep(max(0.0, interval_s - (time.monotonic() - started)))
