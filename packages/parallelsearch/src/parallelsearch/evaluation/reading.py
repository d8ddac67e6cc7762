"""Reads question files. A row that cannot be asked is a fault with file, line and reason; none is dropped in silence.

A line is `{"id", "question", "golden_answers", "type"}` and, where known, `kind`, `split`, `answerable`, `supporting_titles`,
`sub_questions` (texts, or objects with `id`, `question`, `depends_on`), `evidences` (triples) and `trap`; more is ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.graphs import DependencyGraph, SubQuestion, build_graph, from_references, from_triples
from parallelsearch.evaluation.questions import Question, needs_decomposition
from parallelsearch.reward.kinds import kind_of
from parallelsearch.rollout.types import Kind
from parallelsearch.schemas.answers import Question as AskedQuestion
from parallelsearch.schemas.base import NonBlankText
from parallelsearch.text_lines import without_mark

SINGLE = "single"
Triple = Annotated[list[str], Field(min_length=2)]


class SubQuestionRow(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    question: str
    depends_on: list[str] = []


class QuestionRow(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: NonBlankText
    question: AskedQuestion
    golden_answers: list[NonBlankText] = Field(min_length=1)
    type: str = ""
    kind: str | None = None
    split: str = ""
    answerable: bool | None = None
    supporting_titles: list[str] = []
    sub_questions: list[str] | list[SubQuestionRow] = []
    evidences: list[Triple] = []
    trap: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that is not asked. `line` counts from 1."""

    file: str
    line: int
    id: str
    reason: str

    def __str__(self) -> str:
        named = f" ({self.id})" if self.id else ""
        return f"{self.file}:{self.line}{named}: {self.reason}"


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of one set, and the rows that could not be read."""

    name: str
    source: str
    sha256: str
    questions: tuple[Question, ...]
    faults: tuple[Fault, ...]

    @property
    def rows(self) -> int:
        return len(self.questions) + len(self.faults)


def read_questions(path: Path) -> QuestionSet:
    """The set in a file, named after it.

    Raises:
        InvalidInput: the file cannot be read, or no row of it can be asked.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
    return question_set(path.stem, str(path.name), without_mark(content.split(b"\n")))


def question_set(name: str, source: str, lines: Iterable[bytes]) -> QuestionSet:
    """The set in `lines`; blank lines are none.

    Raises:
        InvalidInput: no row can be asked.
    """
    questions: list[Question] = []
    faults: list[Fault] = []
    first_lines: dict[str, int] = {}
    digest = hashlib.sha256()
    for number, line in _numbered(lines):
        digest.update(line.strip() + b"\n")
        result = _read_row(line, name, source, number)
        if isinstance(result, Question) and result.id in first_lines:
            result = Fault(source, number, result.id, f"id: the same as in line {first_lines[result.id]}")
        if isinstance(result, Fault):
            faults.append(result)
        else:
            first_lines[result.id] = number
            questions.append(result)
    if not questions:
        raise InvalidInput(f"{source}: no question in it can be asked. {faults[0] if faults else 'It is empty.'}")
    return QuestionSet(name, source, digest.hexdigest(), tuple(questions), tuple(faults))


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _read_row(line: bytes, name: str, source: str, number: int) -> Question | Fault:
    row: QuestionRow | None = None
    try:
        row = QuestionRow.model_validate_json(line)
        return to_question(row, name)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        said = fault["msg"].removeprefix("Value error, ").replace(" at line 1 column ", " at column ")
        return Fault(source, number, "", f"{field}: {said}" if field else said)
    except ValueError as error:
        return Fault(source, number, row.id if row else "", str(error))


def to_question(row: QuestionRow, set_name: str) -> Question:
    """The question of a row.

    Raises:
        ValueError: its kind is unknown, or its sub-questions make no graph.
    """
    question_type = row.type.strip().lower()
    kind = _kind(row.kind, question_type)
    graph = _graph(row, kind)
    return Question(
        set_name=set_name,
        id=row.id,
        question=row.question,
        golden_answers=tuple(row.golden_answers),
        type=question_type,
        kind=kind,
        needs_decomposition=needs_decomposition(kind, question_type, graph),
        supporting_titles=tuple(dict.fromkeys(row.supporting_titles)),
        graph=graph,
        trap=row.trap,
        split=row.split,
        answerable=row.answerable,
    )


def _kind(given: str | None, question_type: str) -> Kind:
    if given is None:
        return kind_of(question_type)
    if given == SINGLE:
        return Kind.UNLABELLED
    try:
        return Kind(given)
    except ValueError:
        raise ValueError(f"kind: {given!r} is none of {', '.join([*Kind, SINGLE])}") from None


def _graph(row: QuestionRow, kind: Kind) -> DependencyGraph | None:
    """By the most explicit label there is. Texts without a reference say nothing of dependencies where triples do."""
    try:
        if row.sub_questions and isinstance(row.sub_questions[0], SubQuestionRow):
            nodes = [item for item in row.sub_questions if isinstance(item, SubQuestionRow)]
            return build_graph([SubQuestion(node.id, node.question, tuple(node.depends_on)) for node in nodes])
        if row.evidences:
            graph = from_triples(row.evidences)
            return graph if fits_kind(graph, kind) else None
        texts = [item for item in row.sub_questions if isinstance(item, str)]
        return from_references(texts) if texts else None
    except ValueError as error:
        raise ValueError(f"sub_questions: {error}") from None


def fits_kind(graph: DependencyGraph, kind: Kind) -> bool:
    """Whether a graph read off triples has the shape of its kind. Names spelt in two ways break chains: then it says nothing."""
    shape = (graph.width > 1, graph.depth > 1)
    return {Kind.PARALLEL: (True, False), Kind.SEQUENTIAL: (False, True), Kind.HYBRID: (True, True)}.get(kind, shape) == shape
