"""Whether what is needed to answer was retrieved, from the observations of a trajectory.

- By titles (as MultiHop-RAG and HotpotQA label evidence): a gold title counts as found when a retrieved passage bears it.
- By answer string (Karpukhin et al. 2020, DPR's answer recall): a gold answer stands in a retrieved passage, both normalised.
  Verdicts (yes, no) stand anywhere and say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parallelsearch.evaluation.questions import Question
from parallelsearch.reward.exact_match import VERDICTS, normalise
from parallelsearch.rollout.types import Passage, Trajectory


@dataclass(frozen=True, slots=True)
class Evidence:
    """None where the labels do not say. `found`: all gold titles where there are titles, else the answer string."""

    title_recall: float | None
    answer_found: bool | None

    @property
    def found(self) -> bool | None:
        return self.answer_found if self.title_recall is None else self.title_recall >= 1.0


def read_evidence(question: Question, trajectory: Trajectory) -> Evidence:
    titles = {normalise(title) for title in question.supporting_titles}
    golds = {normalise(gold) for gold in question.golden_answers} - {""}
    found_titles: set[str] = set()
    answer_found = False
    for passage in _passages(trajectory):
        if titles:
            found_titles.add(normalise(passage.title))
        if not answer_found:
            text = f" {normalise(f'{passage.title} {passage.text}')} "
            answer_found = any(f" {gold} " in text for gold in golds)
    undecidable = not golds or bool(golds & VERDICTS)
    return Evidence(
        title_recall=len(titles & found_titles) / len(titles) if titles else None,
        answer_found=None if undecidable else answer_found,
    )


def _passages(trajectory: Trajectory) -> Iterator[Passage]:
    """Each passage once, however often it was found."""
    seen: set[tuple[str, str]] = set()
    for turn in trajectory.turns:
        for result in turn.observation:
            for passage in result.passages:
                key = (passage.id, passage.title)
                if key not in seen:
                    seen.add(key)
                    yield passage
