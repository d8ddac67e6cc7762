"""Compares an answer with the gold answers: SQuAD normalisation, exact match, token F1 and cover match."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

VERDICTS = frozenset({"yes", "no"})
"""Answers, normalised, that stand in any text and so say nothing about it."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, no ASCII punctuation, no English articles, single spaces (Rajpurkar et al. 2016, SQuAD's evaluation script)."""
    plain = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(prediction: str | None, golden_answers: Sequence[str]) -> bool:
    """Whether the normalised prediction equals a normalised gold answer; None is no answer and matches nothing."""
    if prediction is None:
        return False
    normalised = normalise(prediction)
    return any(normalise(gold) == normalised for gold in golden_answers)


def cover_match(prediction: str | None, golden_answers: Sequence[str]) -> bool:
    """Whether a normalised gold answer stands, word for word, inside the normalised prediction."""
    if prediction is None:
        return False
    normalised = normalise(prediction)
    return any(_stands_in(normalise(gold), normalised) for gold in golden_answers)


def f1(prediction: str | None, golden_answers: Sequence[str]) -> float:
    """The best token F1 = 2PR / (P + R) over the gold answers, in [0, 1] (SQuAD); verdicts (yes, no) count only whole."""
    if prediction is None:
        return 0.0
    return max((_token_f1(normalise(prediction), normalise(gold)) for gold in golden_answers), default=0.0)


def _stands_in(gold: str, text: str) -> bool:
    return f" {gold} " in f" {text} " if gold else not text


def _token_f1(prediction: str, gold: str) -> float:
    if prediction == gold:
        return 1.0
    if {prediction, gold} & {"yes", "no", "noanswer"}:
        return 0.0
    shared = sum((Counter(prediction.split()) & Counter(gold.split())).values())
    return 2 * shared / (len(prediction.split()) + len(gold.split())) if shared else 0.0
