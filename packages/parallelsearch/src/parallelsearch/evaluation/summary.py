"""From columns to what a report says: every metric of every group with its interval, quantiles, stop reasons, turn counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from parallelsearch.evaluation import statistics
from parallelsearch.evaluation.metrics import METRICS, QUANTILES
from parallelsearch.evaluation.plan import Cell, cells
from parallelsearch.evaluation.questions import PAPER_SETS
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.evaluation.table import ROWS, Columns, groups, read_columns
from parallelsearch.evaluation.wire import RunModel
from parallelsearch.rollout.types import Mode

SEED = 20_250_813
"""Of the bootstrap, so that a report of the same trajectories is the same."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, its 95 % interval and over how many questions it was taken; None over nothing."""

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Point:
    """One rollout in the latency plot."""

    sub_queries: int
    llm_calls: int
    total_ms: float
    search_ms: float


@dataclass(frozen=True, slots=True)
class Group:
    """`llm_calls` counts rollouts by their number of calls."""

    name: str
    n: int
    metrics: dict[str, Estimate]
    quantiles: dict[str, Estimate]
    stop_reasons: dict[str, int]
    llm_calls: dict[str, int]


@dataclass(frozen=True, slots=True)
class CellSummary:
    """`answered_by` counts model, version and index as the trajectories say; `missing` are asked for and not there."""

    set_name: str
    mode: Mode
    model: str
    missing: int
    answered_by: dict[str, int]
    groups: dict[str, Group]
    points: list[Point] = field(default_factory=list)

    @property
    def cell(self) -> Cell:
        return Cell(self.set_name, self.mode, self.model)


@dataclass(frozen=True, slots=True)
class MacroMean:
    """The mean of exact match over the sets, as the paper's tables give it."""

    mode: Mode
    model: str
    sets: int
    exact_match: Estimate


@dataclass(frozen=True, slots=True)
class Summary:
    """All that a report is made of. `not_asked` are the paper's sets that this run does not have."""

    run: RunModel
    cells: list[CellSummary]
    macro_means: list[MacroMean]
    not_asked: list[str]


def summarise(folder: RunFolder, run: RunModel) -> tuple[Summary, dict[Cell, Columns]]:
    """Reads every cell of the run once.

    Raises:
        InvalidInput: a file of the folder is broken.
    """
    questions = folder.questions()
    names = [one.name for one in run.sets]
    tables = {cell: read_columns(folder, cell, questions) for cell in cells(names, run.modes, run.models)}
    asked = Counter(set_name for set_name, _ in questions)
    summaries = [summarise_cell(cell, columns, asked[cell.set_name]) for cell, columns in tables.items()]
    macro = [_macro(mode, model, tables) for model in run.models or [""] for mode in run.modes] if len(names) > 1 else []
    not_asked = [name for name in PAPER_SETS if name not in names] if set(names) & set(PAPER_SETS) else []
    return Summary(run, summaries, [one for one in macro if one], not_asked), tables


def summarise_cell(cell: Cell, columns: Columns, asked: int) -> CellSummary:
    places = groups(columns.questions)
    answered_by = Counter(" · ".join(part or "?" for part in one) for one in columns.answered_by)
    calls, rounds = columns.column("llm_calls"), columns.column("sub_queries")
    points = [
        Point(int(rounds[place]), int(calls[place]), float(total), float(searching))
        for place, (total, searching) in enumerate(zip(columns.column("total_ms"), columns.column("search_ms"), strict=True))
    ]
    return CellSummary(
        set_name=cell.set_name,
        mode=cell.mode,
        model=cell.model,
        missing=asked - len(columns),
        answered_by=dict(sorted(answered_by.items())),
        groups={name: summarise_group(name, columns.take(rows)) for name, rows in places.items()},
        points=points,
    )


def summarise_group(name: str, columns: Columns) -> Group:
    import numpy as np

    values = statistics.ratios(columns.tops, columns.bottoms)
    intervals = statistics.ratio_intervals(columns.tops, columns.bottoms, seed=SEED)
    counted = np.isfinite(columns.tops) & np.isfinite(columns.bottoms)
    total_ms = columns.column("total_ms")
    quantiles = {
        label: _estimate(
            float(np.quantile(total_ms, q)) if len(columns) else None,
            statistics.quantile_interval(total_ms, q, seed=SEED),
            len(columns),
        )
        for label, q in QUANTILES.items()
    }
    calls = Counter(int(value) for value in columns.column("llm_calls"))
    return Group(
        name=name,
        n=len(columns),
        metrics={
            metric.name: _estimate(values[row], intervals[row], int(counted[row].sum())) for row, metric in enumerate(METRICS)
        },
        quantiles=quantiles,
        stop_reasons={reason.value: count for reason, count in sorted(Counter(columns.stop_reasons).items())},
        llm_calls={str(value): calls[value] for value in sorted(calls)},
    )


def _estimate(value: float | None, interval: statistics.Interval | None, n: int) -> Estimate:
    return Estimate(value, interval.low if interval else None, interval.high if interval else None, n)


def _macro(mode: Mode, model: str, tables: dict[Cell, Columns]) -> MacroMean | None:
    chosen = [columns for cell, columns in tables.items() if (cell.mode, cell.model) == (mode, model) and len(columns)]
    row = slice(ROWS["exact_match"], ROWS["exact_match"] + 1)
    found = statistics.macro_mean([(columns.tops[row], columns.bottoms[row]) for columns in chosen], seed=SEED)
    if found is None:
        return None
    value, interval = found
    return MacroMean(mode, model, len(chosen), _estimate(value, interval, sum(map(len, chosen))))
