"""The trajectories inside a report's page: lines of JSON, streamed, each passage once. Nothing in them can leave the script.

The first line is the index; then come `P` lines (passages) and `T` lines (trajectories), numbered in the order of their kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from parallelsearch.evaluation.measuring import measure
from parallelsearch.evaluation.plan import Cell
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.protocol.observations import cut_words
from parallelsearch.rollout.types import Answer, Malformed, Passage, Search, Trajectory, Turn
from parallelsearch.schemas.trajectories import trajectory_from_wire

SHOWN_WORDS = 120


@dataclass(frozen=True, slots=True)
class Column:
    """One side of the comparison: what it is called, and its cells, a set each."""

    label: str
    folder: RunFolder
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where the trajectories that hold begin in the file of one cell of a column."""

    column: int
    folder: RunFolder
    cell: Cell
    offsets: Sequence[int]


def data_lines(columns: Sequence[Column], questions: Mapping[tuple[str, str], Question]) -> Iterator[str]:
    """All lines, the index first: for it the files are read twice and only ids and verdicts kept.

    Of a run that goes on meanwhile, all lines are of what was there at the beginning.
    """
    there = [
        _Lines(number, column.folder, cell, sorted(column.folder.line_offsets(cell).values()))
        for number, column in enumerate(columns)
        for cell in column.cells
    ]
    places = {key: number for number, key in enumerate(questions)}
    index = {
        "columns": [column.label for column in columns],
        "questions": [_question(question) for question in questions.values()],
        "trajectories": [
            (number, places[question.key], measure(question, trajectory).exact_match)
            for number, question, trajectory in _stream(there, questions)
        ],
    }
    yield _json(index)
    numbers: dict[tuple[str, str, str], int] = {}
    for _, question, trajectory in _stream(there, questions):
        for passage in _passages(trajectory):
            if _key(question, passage) not in numbers:
                numbers[_key(question, passage)] = len(numbers)
                yield "P" + _json({"title": passage.title, "text": cut_words(passage.text, SHOWN_WORDS)})
        yield "T" + _json(_trajectory(question, trajectory, numbers))


def _stream(there: Sequence[_Lines], questions: Mapping[tuple[str, str], Question]) -> Iterator[tuple[int, Question, Trajectory]]:
    """The trajectories that hold, of each question and column one."""
    for lines in there:
        for model in lines.folder.trajectories_at(lines.cell, lines.offsets):
            question = questions.get((lines.cell.set_name, model.id))
            if question is not None:
                yield lines.column, question, trajectory_from_wire(model)


def _passages(trajectory: Trajectory) -> Iterator[Passage]:
    return (passage for turn in trajectory.turns for result in turn.observation for passage in result.passages)


def _key(question: Question, passage: Passage) -> tuple[str, str, str]:
    """Ids are only a corpus's own, so the title goes with them."""
    return question.set_name, passage.id, passage.title


def _question(question: Question) -> dict[str, object]:
    return {
        "set": question.set_name,
        "id": question.id,
        "question": question.question,
        "golden_answers": question.golden_answers,
        "type": question.type,
        "kind": question.kind.value,
        "titles": question.supporting_titles,
    }


def _trajectory(question: Question, trajectory: Trajectory, numbers: Mapping[tuple[str, str, str], int]) -> dict[str, object]:
    measured = measure(question, trajectory)
    return {
        "answer": trajectory.answer,
        "stop_reason": trajectory.stop_reason.value,
        "llm_calls": trajectory.usage.llm_calls,
        "sub_queries": trajectory.usage.sub_queries,
        "total_ms": trajectory.timings.total_ms,
        "reward": measured.reward.value,
        "turns": [_turn(question, turn, numbers) for turn in trajectory.turns],
    }


def _turn(question: Question, turn: Turn, numbers: Mapping[tuple[str, str, str], int]) -> dict[str, object]:
    results = [
        {"query": one.query, "failed": one.failed, "passages": [numbers[_key(question, passage)] for passage in one.passages]}
        for one in turn.observation
    ]
    shown: dict[str, object] = {"reasoning": turn.reasoning, "results": results}
    match turn.action:
        case Search(queries, dropped):
            return shown | {"type": "search", "queries": queries, "dropped": dropped}
        case Answer(text):
            return shown | {"type": "answer", "text": text}
        case Malformed():
            return shown | {"type": "malformed", "text": turn.text}


def _json(value: object) -> str:
    """JSON in which no `<` is left, so that no text can close the script that holds it; escapes mean the same to a parser."""
    return orjson.dumps(value).decode().replace("<", "\\u003c")
