from collections.abc import Callable, Sequence

import pytest

from parallelsearch.protocol.actions import parse_opened_answer, parse_turn
from parallelsearch.rollout.types import Mode, Passage, Search, StopReason, SubQueryResult, Trajectory, Turn

GOLD = "Claude Monet"
PASSAGE = Passage("p1", "A title", "A text")
Build = Callable[..., Trajectory]


def build(
    *blocks: str, think: str = "<think> I reason </think>\n\n", passages: Sequence[Passage] = (PASSAGE,), opened: bool = False
) -> Trajectory:
    """A trajectory of the turns that a policy writes: `s:a ## b` searches, `a:x` answers, anything else stands as it is."""
    turns = []
    for index, block in enumerate(blocks):
        kind, _, inside = block.partition(":")
        text = {"s": f"{think}<search> {inside} </search>", "a": f"{think}<answer> {inside} </answer>"}.get(kind, block)
        last_opened = opened and index == len(blocks) - 1
        parsed = parse_opened_answer(text) if last_opened else parse_turn(text, max_sub_queries=8)
        observation = ()
        if isinstance(parsed.action, Search):
            observation = tuple(SubQueryResult(query, tuple(passages)) for query in parsed.action.queries)
        turns.append(Turn(index, text, parsed.reasoning, parsed.action, observation))
    return Trajectory("t", "Who?", Mode.PARALLEL, None, StopReason.ANSWERED, tuple(turns))


@pytest.fixture
def trajectory() -> Build:
    return build
