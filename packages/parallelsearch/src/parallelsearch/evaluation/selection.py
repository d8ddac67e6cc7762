"""Which questions of a set are asked, and how many fell to which filter."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.questions import Question, Subset, in_subset
from parallelsearch.evaluation.reading import QuestionSet


@dataclass(frozen=True, slots=True)
class Selection:
    """`split` empty means all. `answerable_only` asks for the label, in sets that have it at all."""

    split: str = ""
    answerable_only: bool = False
    subset: Subset | None = None
    limit: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Selected:
    """`left_out` counts by reason; together with `questions` it adds up to what could be read."""

    source: QuestionSet
    questions: tuple[Question, ...]
    left_out: dict[str, int] = field(default_factory=dict)


def select(source: QuestionSet, selection: Selection) -> Selected:
    """What of `source` is asked, in its order. `limit` takes a sample by seed, the same for every mode, model and machine.

    Raises:
        InvalidInput: nothing is left.
    """
    left_out: dict[str, int] = {}
    kept: list[Question] = []
    labelled = any(question.answerable is not None for question in source.questions)
    if selection.answerable_only and not labelled:
        selection = replace(selection, answerable_only=False)
    for question in source.questions:
        reason = _refuse(question, selection)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        else:
            kept.append(question)
    if selection.limit is not None and len(kept) > selection.limit:
        left_out["beyond the limit"] = len(kept) - selection.limit
        sample = {question.id for question in sorted(kept, key=lambda one: _rank(one, selection.seed))[: selection.limit]}
        kept = [question for question in kept if question.id in sample]
    if not kept:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InvalidInput(f"{source.source}: no question is left to ask ({reasons}).")
    return Selected(source, tuple(kept), left_out)


def _refuse(question: Question, selection: Selection) -> str:
    if selection.split and question.split and question.split != selection.split:
        return f"not of the {selection.split} split"
    if selection.answerable_only and question.answerable is not True:
        return "not answerable from the corpus"
    if selection.subset and not in_subset(question, selection.subset):
        return f"not in the {selection.subset} subset"
    return ""


def _rank(question: Question, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{question.id}".encode()).digest()
