"""Reads rollouts that others published as one text, so that they can be measured like ours.

The text alternates between what the policy wrote and `<information>` blocks. Where these were written by the policy itself, the
text does not say so, and they are taken for observations: what stands in them neither acts nor answers.
"""

from __future__ import annotations

import re

from parallelsearch.protocol.actions import parse_turn
from parallelsearch.protocol.tags import INFORMATION
from parallelsearch.rollout.types import (
    Answer,
    Mode,
    Passage,
    PolicyIdentity,
    Search,
    StopReason,
    SubQueryResult,
    Trajectory,
    Turn,
    Usage,
)

_INFORMATION = re.compile(rf"<{INFORMATION}>(.*?)(?:</{INFORMATION}>|\Z)", re.DOTALL)
_DOCUMENT = re.compile(r'^Doc (\d+)\(Title: "?(.*?)"?\) (.*?)(?=^Doc \d+\(Title: |\Z)', re.DOTALL | re.MULTILINE)
MAX_SUB_QUERIES = 64


def trajectory_from_text(identifier: str, question: str, text: str, model: str = "") -> Trajectory:
    """The trajectory of a published rollout. Its numbering restarts with each sub-query, which is how passages are told apart."""
    pieces = _INFORMATION.split(text)
    turns: list[Turn] = []
    for place in range(0, len(pieces), 2):
        written = pieces[place]
        if not written.strip():
            continue
        parsed = parse_turn(written.strip(), max_sub_queries=MAX_SUB_QUERIES)
        found = _groups(pieces[place + 1]) if place + 1 < len(pieces) else []
        observation = _observation(parsed.action.queries, found) if isinstance(parsed.action, Search) else ()
        turns.append(Turn(len(turns), written.strip(), parsed.reasoning, parsed.action, observation))
        if isinstance(parsed.action, Answer):
            break
    last = turns[-1].action if turns else None
    answer = last.text if isinstance(last, Answer) else None
    searched = [turn for turn in turns if turn.observation]
    return Trajectory(
        id=identifier,
        question=question,
        mode=Mode.PARALLEL,
        answer=answer,
        stop_reason=StopReason.ANSWERED if answer is not None else StopReason.TURN_LIMIT,
        turns=tuple(turns),
        usage=Usage(llm_calls=len(turns), search_rounds=len(searched), sub_queries=sum(len(turn.observation) for turn in searched)),
        policy=PolicyIdentity(model),
    )


def _groups(block: str) -> list[list[Passage]]:
    groups: list[list[Passage]] = []
    for number, title, text in _DOCUMENT.findall(block):
        if number == "1" or not groups:
            groups.append([])
        groups[-1].append(Passage(title, title, text.strip()))
    return groups


def _observation(queries: tuple[str, ...], groups: list[list[Passage]]) -> tuple[SubQueryResult, ...]:
    """One result a query; passages beyond go to the last, which a text without labels cannot tell better."""
    shared = groups[: len(queries)]
    if len(groups) > len(queries):
        shared[-1] = [passage for group in groups[len(queries) - 1 :] for passage in group]
    shared += [[] for _ in range(len(queries) - len(shared))]
    return tuple(SubQueryResult(query, tuple(passages)) for query, passages in zip(queries, shared, strict=True))
