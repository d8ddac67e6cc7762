"""The corpora of the experiments: one of Wikipedia passages, merged from six sets, and one for each set that is not Wikipedia."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from parallelsearch.demo import demo_file
from parallelsearch.evaluation.questions import Question
from retriever.corpus.reading import CorpusPassage, read_corpus

WIKIPEDIA = "wikipedia"
WIKIPEDIA_SETS = ("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa")
OTHER_SETS = ("covidqa", "multihoprag")
DEMO = "demo"
SEED = 0


def load(name: str, data: Path) -> list[CorpusPassage]:
    """The passages of a corpus; a text that several sets hold is taken once.

    Raises:
        CorpusError: a file is missing or broken.
    """
    if name == DEMO:
        return [passage for _, passage in read_corpus([demo_file("corpus.jsonl")])]
    sets = WIKIPEDIA_SETS if name == WIKIPEDIA else (name,)
    distinct: dict[str, CorpusPassage] = {}
    for one in sets:
        for _, passage in read_corpus([data / f"{one}_corpus.jsonl.gz"]):
            distinct.setdefault(passage.contents, CorpusPassage(f"{one}:{passage.id}", passage.title, passage.text, passage.url))
    return list(distinct.values())


def cut(passages: list[CorpusPassage], questions: Iterable[Question], size: int) -> list[CorpusPassage]:
    """For rehearsals: the evidence of the questions, and others by chance, up to `size` passages."""
    listed = list(questions)
    titles = {title for question in listed for title in question.supporting_titles}
    golds = [gold for question in listed if not question.supporting_titles for gold in question.golden_answers]
    kept = [one for one in passages if one.title in titles or any(gold in one.text for gold in golds)][:size]
    chosen = {one.id for one in kept}
    rest = [one for one in passages if one.id not in chosen]
    return kept + random.Random(SEED).sample(rest, min(len(rest), max(0, size - len(kept))))
