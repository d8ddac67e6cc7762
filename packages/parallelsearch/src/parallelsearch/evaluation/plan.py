"""What a run asks: its settings, and the jobs that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parallelsearch.evaluation.questions import Question
from parallelsearch.rollout.types import Mode

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Limits:
    """What every rollout of a run is held to. `seed` goes to the policy with each request."""

    top_k: int = 3
    max_turns: int = 4
    max_sub_queries: int = 8
    temperature: float = 0.0
    seed: int = 0
    deadline_s: float = 60.0


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One column of a report: a set, asked in one mode, of one model (empty: the platform's own)."""

    set_name: str
    mode: Mode
    model: str = ""

    @property
    def slug(self) -> str:
        """A file name that no other cell of the run has, as long as models differ in letters, digits, dots and dashes."""
        return "__".join(_UNSAFE.sub("-", part) for part in (self.set_name, self.mode.value, self.model) if part)

    def __str__(self) -> str:
        return " · ".join(part for part in (self.set_name, self.mode.value, self.model) if part)


@dataclass(frozen=True, slots=True)
class Job:
    cell: Cell
    question: Question


def cells(set_names: Sequence[str], modes: Sequence[Mode], models: Sequence[str]) -> list[Cell]:
    return [Cell(name, mode, model) for name in set_names for model in models or [""] for mode in modes]


def jobs(questions: Sequence[Question], modes: Sequence[Mode], models: Sequence[str]) -> Iterator[Job]:
    """Each question in every mode and by every model before the next, so that all cells run under the same load."""
    for question in questions:
        for model in models or [""]:
            for mode in modes:
                yield Job(Cell(question.set_name, mode, model), question)
