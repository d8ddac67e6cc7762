"""What the policy's text asks for: the first complete block is the action."""

from __future__ import annotations

import re
from dataclasses import dataclass

from parallelsearch.protocol.tags import ANSWER, SEARCH, SEPARATOR, THINK
from parallelsearch.rollout.types import Action, Answer, Malformed, Search

_BLOCK = re.compile(rf"<({SEARCH}|{ANSWER})>(.*?)</\1>", re.DOTALL)
_THINK_TAG = re.compile(rf"</?{THINK}>")


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """`length` is where the block ends in the text; what follows is not part of the turn. The whole text if malformed."""

    action: Action
    reasoning: str
    length: int


def query_key(query: str) -> str:
    """What makes two sub-queries the same: case and white space aside."""
    return " ".join(query.split()).casefold()


def split_queries(block: str, max_sub_queries: int) -> Search | Malformed:
    """Splits the inside of a search block on `##`; blanks and repeats go, at most `max_sub_queries` stay."""
    raw = tuple(part.strip() for part in block.split(SEPARATOR))
    distinct: dict[str, str] = {}
    for query in raw:
        if query:
            distinct.setdefault(query_key(query), query)
    if not distinct:
        return Malformed("the search holds no sub-query")
    kept = tuple(distinct.values())[:max_sub_queries]
    return Search(kept, dropped=len(distinct) - len(kept), raw_queries=raw)


def parse_turn(text: str, *, max_sub_queries: int) -> ParsedTurn:
    """Reads one turn of the policy. Text after the first complete block is ignored."""
    match = _BLOCK.search(text)
    if match is None:
        return ParsedTurn(Malformed("no complete search or answer block"), _reasoning(text), len(text))
    inside = match[2]
    action: Action
    if match[1] == SEARCH:
        action = split_queries(inside, max_sub_queries)
    elif inside.strip():
        action = Answer(inside.strip())
    else:
        action = Malformed("the answer is empty")
    return ParsedTurn(action, _reasoning(text[: match.start()]), match.end())


def parse_opened_answer(text: str) -> ParsedTurn:
    """Reads a turn that the environment opened with `<answer>`: all up to the closing tag is the answer, the tag may be missing."""
    end = text.find(f"</{ANSWER}>")
    inside = (text if end < 0 else text[:end]).strip()
    length = len(text) if end < 0 else end + len(f"</{ANSWER}>")
    action = Answer(inside, opened=True) if inside else Malformed("the answer is empty")
    return ParsedTurn(action, "", length)


def _reasoning(text: str) -> str:
    return _THINK_TAG.sub("", text).strip()
