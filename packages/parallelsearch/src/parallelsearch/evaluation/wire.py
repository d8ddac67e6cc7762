"""What an evaluation keeps of questions and of itself, as files hold it: pydantic at the edge, dataclasses inside."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from parallelsearch.evaluation.graphs import SubQuestion, build_graph
from parallelsearch.evaluation.questions import Question
from parallelsearch.rollout.types import Kind, Mode


class FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubQuestionModel(FileModel):
    id: str
    question: str
    depends_on: list[str] = []


class QuestionModel(FileModel):
    """A question as asked: labels resolved, so that a report needs no other file."""

    set: str
    id: str
    question: str
    golden_answers: list[str]
    type: str
    kind: Kind
    needs_decomposition: bool | None = None
    supporting_titles: list[str] = []
    sub_questions: list[SubQuestionModel] = []
    trap: bool = False


class SetModel(FileModel):
    """A set of a run. What was left out and what could not be read adds up, with `asked`, to `rows`."""

    name: str
    source: str
    sha256: str
    rows: int
    asked: int
    left_out: dict[str, int] = {}
    faults: list[str] = []


class LimitsModel(FileModel):
    top_k: int
    max_turns: int
    max_sub_queries: int
    temperature: float
    seed: int
    deadline_s: float


class StackModel(FileModel):
    """What answered. Empty where it does not say."""

    through: str
    model: str = ""
    version: str = ""
    layout: str = ""
    context_tokens: int | None = None
    turn_tokens: int | None = None
    index: str = ""
    encoder: str = ""
    passages: int | None = None
    corpus: str = ""
    cache: str = ""

    def agrees(self, other: StackModel) -> bool:
        """Whether both say the same wherever both say something."""
        mine, theirs = self.model_dump(), other.model_dump()
        return all(mine[name] == theirs[name] for name in mine if mine[name] and theirs[name])


class RunModel(FileModel):
    """`run.json`: everything that a reader must know to trust or to repeat a report."""

    started_at: str
    commit: str
    sets: list[SetModel]
    modes: list[Mode]
    models: list[str]
    limits: LimitsModel
    stack: StackModel
    concurrency: int
    machine: str = ""
    note: str = ""

    def same_run(self, other: RunModel) -> list[str]:
        """The fields in which `other` is another run: all but when and by which code it was started, and how many at once."""
        passing = {"started_at", "commit", "concurrency", "machine", "note"}
        mine, theirs = self.model_dump(exclude=passing), other.model_dump(exclude=passing)
        return [name for name in mine if mine[name] != theirs[name]]


def question_to_wire(question: Question) -> QuestionModel:
    nodes = question.graph.nodes if question.graph else ()
    return QuestionModel(
        set=question.set_name,
        id=question.id,
        question=question.question,
        golden_answers=list(question.golden_answers),
        type=question.type,
        kind=question.kind,
        needs_decomposition=question.needs_decomposition,
        supporting_titles=list(question.supporting_titles),
        sub_questions=[SubQuestionModel(id=n.id, question=n.text, depends_on=list(n.depends_on)) for n in nodes],
        trap=question.trap,
    )


def question_from_wire(line: bytes) -> Question:
    model = QuestionModel.model_validate_json(line)
    nodes = [SubQuestion(node.id, node.question, tuple(node.depends_on)) for node in model.sub_questions]
    return Question(
        set_name=model.set,
        id=model.id,
        question=model.question,
        golden_answers=tuple(model.golden_answers),
        type=model.type,
        kind=model.kind,
        needs_decomposition=model.needs_decomposition,
        supporting_titles=tuple(model.supporting_titles),
        graph=build_graph(nodes) if nodes else None,
        trap=model.trap,
    )
