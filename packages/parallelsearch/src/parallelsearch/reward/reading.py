"""Reads from a trajectory what the terms of the reward go by. Only the policy's own text and actions count, never an observation.

`read_strictly` goes by the actions as the environment took them, `read_as_published` by the policy's text as the published
function reads it: any `##` is a decomposition and every opened search counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from parallelsearch.protocol.actions import query_key
from parallelsearch.protocol.tags import ANSWER, INFORMATION, SEARCH, SEPARATOR, THINK
from parallelsearch.rollout.types import Answer, Search, Trajectory, Turn

_ANY_TAG = re.compile(rf"</?(?:{THINK}|{SEARCH}|{INFORMATION}|{ANSWER})>")
_SEARCH_BLOCK = re.compile(rf"<{SEARCH}>(.*?)</{SEARCH}>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reading:
    """`searches` is n of the search count; `repeated_searches` are those without a new sub-query, which are not in n."""

    well_formed: bool
    decomposed: bool
    searches: int
    repeated_searches: int = 0


def final_answer(trajectory: Trajectory) -> str | None:
    """What the policy answered in its last turn."""
    action = trajectory.turns[-1].action if trajectory.turns else None
    return action.text if isinstance(action, Answer) else None


def is_well_formed(trajectory: Trajectory) -> bool:
    """Think, then search, until think, then answer; nothing but white space between blocks; no turn opened by the environment."""
    if not trajectory.turns:
        return False
    *searches, last = trajectory.turns
    return all(_is_formed(turn, SEARCH) for turn in searches) and _is_formed(last, ANSWER)


def read_strictly(trajectory: Trajectory) -> Reading:
    seen: set[str] = set()
    counted = repeated = 0
    for action in _searches(trajectory):
        keys = {query_key(query) for query in action.queries}
        if keys <= seen:
            repeated += 1
        else:
            counted += 1
        seen |= keys
    first = next(_searches(trajectory), None)
    return Reading(
        well_formed=is_well_formed(trajectory) and all(isinstance(t.action, Search | Answer) for t in trajectory.turns),
        decomposed=first is not None and len({query_key(query) for query in first.queries}) + first.dropped >= 2,
        searches=counted,
        repeated_searches=repeated,
    )


def read_as_published(trajectory: Trajectory) -> Reading:
    written = [_written(turn) for turn in trajectory.turns]
    blocks = [block for text in written for block in _SEARCH_BLOCK.findall(text)]
    return Reading(
        well_formed=is_well_formed(trajectory),
        decomposed=bool(blocks) and SEPARATOR in blocks[0],
        searches=sum(text.count(f"<{SEARCH}>") for text in written),
    )


def _searches(trajectory: Trajectory) -> Iterator[Search]:
    return (turn.action for turn in trajectory.turns if isinstance(turn.action, Search))


def _written(turn: Turn) -> str:
    """The policy's text; where a file leaves it out, the search block rebuilt from the action."""
    if turn.text or not isinstance(turn.action, Search):
        return turn.text
    return f"<{SEARCH}> {f' {SEPARATOR} '.join(turn.action.raw_queries or turn.action.queries)} </{SEARCH}>"


def _is_formed(turn: Turn, block: str) -> bool:
    if isinstance(turn.action, Answer) and turn.action.opened:
        return False
    expected = [f"<{THINK}>", f"</{THINK}>", f"<{block}>", f"</{block}>"]
    if _ANY_TAG.findall(turn.text) != expected:
        return False
    before, _, between, _, after = _ANY_TAG.split(turn.text)
    return not (before + between + after).strip()
