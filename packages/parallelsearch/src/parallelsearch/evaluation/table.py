"""The measurements of one cell as columns of numbers: some 700 bytes a question, whatever its trajectory weighs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.measuring import Measurement, measure
from parallelsearch.evaluation.metrics import METRICS
from parallelsearch.evaluation.plan import Cell
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.rollout.types import Kind, StopReason
from parallelsearch.schemas.trajectories import trajectory_from_wire

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ALL = "all"
TRAPS = "traps"


@dataclass(frozen=True, slots=True)
class Columns:
    """Metrics by questions: numerators, denominators (NaN where not defined); and what is not a ratio, a question an entry."""

    tops: Array
    bottoms: Array
    questions: tuple[Question, ...]
    stop_reasons: tuple[StopReason, ...]
    answered_by: tuple[tuple[str, str, str], ...]

    def __len__(self) -> int:
        return len(self.questions)

    def column(self, metric: str) -> Array:
        numerators: Array = self.tops[ROWS[metric]]
        return numerators

    def take(self, places: list[int]) -> Columns:
        return Columns(
            self.tops[:, places],
            self.bottoms[:, places],
            tuple(self.questions[place] for place in places),
            tuple(self.stop_reasons[place] for place in places),
            tuple(self.answered_by[place] for place in places),
        )


ROWS = {metric.name: row for row, metric in enumerate(METRICS)}


def tabulate(measurements: Iterable[Measurement]) -> Columns:
    """Reads a stream once; of two measurements of one question the later holds. In the order in which they came first."""
    import numpy as np

    numbers: dict[tuple[str, str], array[float]] = {}
    others: dict[tuple[str, str], tuple[Question, StopReason, tuple[str, str, str]]] = {}
    for one in measurements:
        numbers[one.question.key] = array("d", _numbers(one))
        others[one.question.key] = (one.question, one.stop_reason, one.answered_by)
    flat = np.frombuffer(b"".join(numbers.values())).reshape(len(numbers), 2 * len(METRICS)).T
    questions, stops, answered_by = zip(*others.values(), strict=True) if others else ((), (), ())
    return Columns(flat[: len(METRICS)], flat[len(METRICS) :], tuple(questions), tuple(stops), tuple(answered_by))


def _numbers(one: Measurement) -> list[float]:
    values = [metric.numerator(one) for metric in METRICS] + [metric.denominator(one) for metric in METRICS]
    return [float("nan") if value is None else value for value in values]


def read_columns(folder: RunFolder, cell: Cell, questions: Mapping[tuple[str, str], Question]) -> Columns:
    """The columns of a cell, in the order of `questions`; trajectories are read one at a time.

    Raises:
        InvalidInput: a trajectory is of a question that the run does not ask.
    """

    def stream() -> Iterable[Measurement]:
        for model in folder.trajectories(cell):
            question = questions.get((cell.set_name, model.id))
            if question is None:
                raise InvalidInput(f"{folder.file(cell)}: {model.id} is no question of this run.")
            yield measure(question, trajectory_from_wire(model))

    columns = tabulate(stream())
    order = {key: place for place, key in enumerate(questions)}
    places = sorted(range(len(columns)), key=lambda place: order[columns.questions[place].key])
    return columns.take(places)


def groups(questions: Iterable[Question]) -> dict[str, list[int]]:
    """The places of each group's questions: all, by kind, by type where a kind holds several, and the traps."""
    found: dict[str, list[int]] = {ALL: []}
    types: dict[str, set[str]] = {}
    listed = list(questions)
    for place, question in enumerate(listed):
        found[ALL].append(place)
        found.setdefault(kind_group(question.kind), []).append(place)
        types.setdefault(kind_group(question.kind), set()).add(question.type)
        if question.trap:
            found.setdefault(TRAPS, []).append(place)
    for place, question in enumerate(listed):
        if question.type and len(types[kind_group(question.kind)]) > 1:
            found.setdefault(f"type {question.type}", []).append(place)
    return {name: places for name, places in found.items() if name == ALL or places}


def kind_group(kind: Kind) -> str:
    return f"kind {kind.value}"
