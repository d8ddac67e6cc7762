"""Compares two sides on the questions that both answered: which is right more often, and at what effort.

A side is a run's folder, and of it one mode and model: `DIR`, `DIR:sequential`, `DIR:parallel:MODEL`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation import statistics
from parallelsearch.evaluation.metrics import METRICS, QUANTILES
from parallelsearch.evaluation.plan import Cell, cells
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.session import read_manifest
from parallelsearch.evaluation.statistics import McNemar, PairedDifference, QuantileRatio
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.evaluation.summary import SEED
from parallelsearch.evaluation.table import ALL, ROWS, Columns, groups, read_columns
from parallelsearch.evaluation.wire import RunModel
from parallelsearch.rollout.types import Mode

POOLED = "all sets"


@dataclass(frozen=True, slots=True)
class Side:
    """One side, and the files of it. `label` is what reports call it."""

    label: str
    folder: RunFolder
    run: RunModel
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """One group of one set: `n` questions that both sides answered."""

    set_name: str
    group: str
    n: int
    exact_match: McNemar
    exact_match_effect: float
    """Cohen's h."""
    metrics: dict[str, PairedDifference]
    wall_clock: dict[str, QuantileRatio]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`unpaired` counts the questions that only one side answered; `differing` names what the runs do not have in common."""

    a: str
    b: str
    run_a: RunModel
    run_b: RunModel
    unpaired: int
    differing: list[str]
    rows: list[Compared]


def read_side(reference: str) -> Side:
    """The side that `DIR[:mode[:model]]` names.

    Raises:
        InvalidInput: there is no such run, or it has several modes or models and the reference names none.
    """
    name, rest = _folder_and_rest(reference)
    mode, _, model = rest.partition(":")
    folder = RunFolder(Path(name))
    run = read_manifest(folder)
    if run is None:
        raise InvalidInput(f"{name} holds no evaluation run.")
    modes = [one for one in run.modes if not mode or one.value == mode]
    models = [one for one in run.models or [""] if not model or one == model]
    if len(modes) != 1 or len(models) != 1:
        there = ", ".join(f"{name}:{one}" + (f":{other}" if other else "") for one in run.modes for other in run.models or [""])
        raise InvalidInput(f"{reference} does not name one side; there are {there}.")
    label = " · ".join(part for part in (folder.path.name, modes[0].value, models[0]) if part)
    return Side(label, folder, run, tuple(cells([one.name for one in run.sets], modes, models)))


def _folder_and_rest(reference: str) -> tuple[str, str]:
    """The longest beginning that is a folder, since the time in a folder's name has colons too."""
    parts = reference.split(":")
    ways = [(":".join(parts[:end]), ":".join(parts[end:])) for end in range(len(parts), 0, -1)]
    return next((way for way in ways if way[0] and Path(way[0]).is_dir()), ways[-1])


def compare_sides(a: Side, b: Side) -> Comparison:
    """Raises InvalidInput where no question was asked of both."""
    tables_a, tables_b = _read(a), _read(b)
    rows, unpaired = compare_tables(tables_a, tables_b)
    if not rows:
        raise InvalidInput(f"{a.label} and {b.label} have no question in common.")
    return Comparison(a.label, b.label, a.run, b.run, unpaired, a.run.same_run(b.run), rows)


def compare_modes(run: RunModel, tables: dict[Cell, Columns], model: str, a: Mode, b: Mode) -> Comparison | None:
    """Two modes of one run; None if it does not have both."""
    if a not in run.modes or b not in run.modes:
        return None
    of = {mode: {c.set_name: t for c, t in tables.items() if (c.mode, c.model) == (mode, model)} for mode in (a, b)}
    rows, unpaired = compare_tables(of[a], of[b])
    labels = [" · ".join(part for part in (mode.value, model) if part) for mode in (a, b)]
    return Comparison(labels[0], labels[1], run, run, unpaired, [], rows) if rows else None


def _read(side: Side) -> dict[str, Columns]:
    questions = side.folder.questions()
    return {cell.set_name: read_columns(side.folder, cell, questions) for cell in side.cells}


def compare_tables(a: dict[str, Columns], b: dict[str, Columns]) -> tuple[list[Compared], int]:
    """Set by set, and all together where there are several; and how many questions have no partner."""
    rows: list[Compared] = []
    pooled_a: list[Columns] = []
    pooled_b: list[Columns] = []
    unpaired = sum(len(columns) for name, columns in (a | b).items() if not (name in a and name in b))
    for name in [name for name in a if name in b]:
        places_b = {question.id: place for place, question in enumerate(b[name].questions)}
        places = [place for place, question in enumerate(a[name].questions) if question.id in places_b]
        unpaired += len(a[name]) + len(b[name]) - 2 * len(places)
        if not places:
            continue
        paired_a = a[name].take(places)
        paired_b = b[name].take([places_b[question.id] for question in paired_a.questions])
        rows += _compare_groups(name, paired_a, paired_b)
        pooled_a.append(paired_a)
        pooled_b.append(paired_b)
    if len(pooled_a) > 1:
        rows = _compare_groups(POOLED, _stack(pooled_a), _stack(pooled_b)) + rows
    return rows, unpaired


def _stack(parts: list[Columns]) -> Columns:
    import numpy as np

    questions: tuple[Question, ...] = sum((part.questions for part in parts), ())
    return Columns(
        np.concatenate([part.tops for part in parts], axis=1),
        np.concatenate([part.bottoms for part in parts], axis=1),
        questions,
        sum((part.stop_reasons for part in parts), ()),
        sum((part.answered_by for part in parts), ()),
    )


def _compare_groups(name: str, a: Columns, b: Columns) -> list[Compared]:
    found = groups(a.questions)
    if len(found) == 2:
        found = {ALL: found[ALL]}
    return [_compare(name, group, a.take(places), b.take(places)) for group, places in found.items() if places]


def _compare(set_name: str, group: str, a: Columns, b: Columns) -> Compared:
    right_a, right_b = a.column("exact_match"), b.column("exact_match")
    differences = statistics.paired_bootstrap((a.tops, a.bottoms), (b.tops, b.bottoms), seed=SEED)
    clock_a, clock_b = a.column("total_ms"), b.column("total_ms")
    quantiles = {label: statistics.paired_quantiles(clock_a, clock_b, q, seed=SEED) for label, q in QUANTILES.items()}
    return Compared(
        set_name=set_name,
        group=group,
        n=len(a),
        exact_match=statistics.mcnemar(right_a, right_b),
        exact_match_effect=statistics.cohens_h(float(right_a.mean()), float(right_b.mean())),
        metrics={metric.name: found for metric in METRICS if (found := differences[ROWS[metric.name]]) is not None},
        wall_clock={label: found for label, found in quantiles.items() if found is not None},
    )
