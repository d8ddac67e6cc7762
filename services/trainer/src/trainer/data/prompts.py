"""Prompt files for reinforcement learning: questions merged, kinds labelled, prompts built, evaluation questions kept out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from parallelsearch.protocol.observations import Layout
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.types import Kind, Mode
from trainer.data.manifest import Manifest, keep_sources, nothing_left, write_lines, write_manifest
from trainer.data.questions import Question, read_questions
from trainer.labels import Label, PromptRow, Split, question_key


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """`split` is the rows that are wanted, those that name no split among them: training files never hold an `eval` row, nor a
    question that one of them asks."""

    mode: Mode = Mode.PARALLEL
    layout: Layout = Layout.LABELLED
    split: Split = "train"
    kinds: frozenset[Kind] = frozenset(Kind)
    types: frozenset[str] = frozenset()
    only_answerable: bool = True
    limit: int | None = None
    seed: int = 42


def prepare_prompts(sources: list[str], excluded: list[str], target: Path, settings: PromptSettings) -> Manifest:
    """Merges `sources` into a prompt file with its manifest, shuffled by the seed.

    No question of an `eval` row of `sources`, nor of a row of `excluded` that is not marked `train`, gets into a training file,
    whatever its wording's case, articles, spaces or punctuation, in any of Unicode's forms. Raises InvalidInput for a broken file.
    """
    keep_sources(target, [*sources, *excluded])
    questions = [question for source in sources for question in read_questions(source)]
    held_out = _held_out(questions, excluded) if settings.split == "train" else frozenset()
    left_out: Counter[str] = Counter()
    kept = list(_kept(questions, held_out, settings, left_out))
    if not kept:
        raise nothing_left(left_out)
    Random(settings.seed).shuffle(kept)
    if settings.limit is not None:
        left_out["over the limit"] = max(len(kept) - settings.limit, 0)
        kept = kept[: settings.limit]
    rows = write_lines(target, (_row(question, settings).model_dump_json().encode() for question in kept))
    counts = Counter(str(question.kind) for question in kept)
    return write_manifest(target, rows, counts, +left_out, sources, _described(settings), excluded)


def _described(settings: PromptSettings) -> dict[str, str]:
    return {
        "mode": str(settings.mode),
        "layout": str(settings.layout),
        "split": settings.split,
        "kinds": ", ".join(sorted(settings.kinds)),
        "types": ", ".join(sorted(settings.types)) or "all",
        "only_answerable": str(settings.only_answerable),
        "limit": str(settings.limit or "none"),
        "seed": str(settings.seed),
    }


def _held_out(questions: Iterable[Question], excluded: Iterable[str]) -> frozenset[str]:
    """Keys of every question that is measured on."""
    return measured_on(excluded) | {question_key(question.question) for question in questions if question.is_measured_on}


def measured_on(sources: Iterable[str]) -> frozenset[str]:
    """Keys of the questions in files that are named to be kept out; rows marked `train` are not meant."""
    rows = (question for source in sources for question in read_questions(source))
    return frozenset(question_key(question.question) for question in rows if question.split != "train")


def _kept(
    questions: Iterable[Question], held_out: frozenset[str], settings: PromptSettings, left_out: Counter[str]
) -> Iterator[Question]:
    seen: set[str] = set()
    for question in questions:
        reason = _reason_to_leave_out(question, held_out, seen, settings)
        if reason:
            left_out[reason] += 1
        else:
            seen.add(question_key(question.question))
            yield question


def _reason_to_leave_out(question: Question, held_out: frozenset[str], seen: set[str], settings: PromptSettings) -> str:
    key = question_key(question.question)
    wanted_type = not settings.types or question.type in settings.types
    reasons = {
        "of another split": (question.split or settings.split) != settings.split,
        "measured on": key in held_out,
        "asked twice": key in seen,
        "not answerable": settings.only_answerable and not question.answerable,
        "of another kind or type": question.kind not in settings.kinds or not wanted_type,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _row(question: Question, settings: PromptSettings) -> PromptRow:
    label = Label(
        id=question.id,
        question=question.question,
        kind=question.kind,
        golden_answers=question.golden_answers,
        split=settings.split,
    )
    prompt = build_prompt(question.question, settings.mode, final_newline=settings.layout is Layout.PAPER)
    return PromptRow(prompt=prompt, label=label.model_dump_json(), datasource=str(question.kind))
