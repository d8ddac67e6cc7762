"""Which passages an answer rests on: for each sub-query the one that the policy most likely read its fact from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parallelsearch.rollout.types import Passage, SubQueryResult, Trajectory
from parallelsearch.schemas.answers import Citation

_WORD = re.compile(r"\w+")


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def cite(trajectory: Trajectory) -> list[Citation]:
    """One citation a sub-query, without repeats, in the order of the search; none if there is no answer."""
    if trajectory.answer is None:
        return []
    cited: dict[str, Citation] = {}
    for position, turn in enumerate(trajectory.turns):
        following = trajectory.turns[position + 1].reasoning if position + 1 < len(trajectory.turns) else ""
        for result in turn.observation:
            passage = _most_likely(result, following, trajectory.answer)
            if passage is not None and passage.id not in cited:
                cited[passage.id] = _citation(passage, turn.index, result.query)
    return list(cited.values())


def _citation(passage: Passage, turn: int, query: str) -> Citation:
    """With the place in its document, where the passage is of one."""
    about = passage.metadata
    page = about.get("page")
    return Citation(
        passage_id=passage.id,
        title=passage.title,
        turn=turn,
        query=query,
        url=passage.url,
        source=str(about.get("source", "")),
        page=page if isinstance(page, int) else None,
        section=str(about.get("section", "")),
    )


def _most_likely(result: SubQueryResult, following: str, answer: str) -> Passage | None:
    """The passage whose title the sub-query names best; then one that holds the answer; then the reasoning's; then the rank's."""
    query, reasoning = _words(result.query), _words(following)

    def merit(passage: Passage) -> tuple[float, bool, float]:
        title = _words(passage.title)
        return (_share(title, query), answer.casefold() in passage.text.casefold(), _share(title, reasoning))

    return max(result.passages, key=merit, default=None)


def _share(part: Iterable[str], whole: set[str]) -> float:
    words = list(part)
    return sum(word in whole for word in words) / len(words) if words else 0.0
