"""Reads a turn while it is being written: which of the text so far is reasoning, and which is answer.

What is said of a turn before it ends is provisional: an answer that never closes is none. `protocol.actions` has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from parallelsearch.protocol.tags import ANSWER, SEARCH, THINK
from parallelsearch.rollout.types import Answer, Turn

Part = Literal["reasoning", "answer"]


@dataclass(frozen=True, slots=True)
class Delta:
    """More text of one part of a turn, without tags."""

    part: Part
    text: str


class _Inside(Enum):
    NOTHING = auto()
    SEARCH = auto()
    ANSWER = auto()
    DONE = auto()


_OPENINGS = {f"<{SEARCH}>": _Inside.SEARCH, f"<{ANSWER}>": _Inside.ANSWER}
_NEXT = {
    _Inside.NOTHING: _OPENINGS | {f"<{THINK}>": _Inside.NOTHING, f"</{THINK}>": _Inside.NOTHING},
    _Inside.SEARCH: {f"</{SEARCH}>": _Inside.DONE, f"<{ANSWER}>": _Inside.ANSWER},
    _Inside.ANSWER: {f"</{ANSWER}>": _Inside.DONE},
    _Inside.DONE: {},
}
"""For each state the tags that matter in it, and where they lead."""
_PARTS: dict[_Inside, Part] = {_Inside.NOTHING: "reasoning", _Inside.ANSWER: "answer"}


class TurnReader:
    """Lives for one turn. The deltas of a part, joined, are what `parse_turn` reads; white space at its ends is left out.

    `opened` is true where the environment wrote the answer's opening tag.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self._inside = _Inside.ANSWER if opened else _Inside.NOTHING
        self._waiting = ""
        self._said: dict[Part, str] = {"reasoning": "", "answer": ""}
        self._blank: dict[Part, str] = {"reasoning": "", "answer": ""}

    def read(self, text: str) -> list[Delta]:
        """Takes the next piece of the policy's text; the beginning of what may be a tag waits for the rest."""
        self._waiting += text
        deltas: list[Delta] = []
        while tag := self._first_tag():
            before, _, self._waiting = self._waiting.partition(tag)
            deltas += self._say(before)
            self._inside = _NEXT[self._inside][tag]
        safe = len(self._waiting) - self._possible_tag()
        deltas += self._say(self._waiting[:safe])
        self._waiting = self._waiting[safe:]
        return deltas

    def finish(self, turn: Turn) -> list[Delta]:
        """What is left to say, now that the turn was parsed; all of it for a policy that does not stream."""
        answer = turn.action.text if isinstance(turn.action, Answer) else ""
        wholes: dict[Part, str] = {"reasoning": turn.reasoning, "answer": answer}
        return [
            Delta(part, whole.removeprefix(self._said[part]))
            for part, whole in wholes.items()
            if whole.startswith(self._said[part]) and whole != self._said[part]
        ]

    def _first_tag(self) -> str | None:
        found = {tag: position for tag in _NEXT[self._inside] if (position := self._waiting.find(tag)) >= 0}
        return min(found, key=lambda tag: found[tag], default=None)

    def _possible_tag(self) -> int:
        """Characters at the end that may be the beginning of a tag."""
        start = self._waiting.rfind("<")
        rest = self._waiting[start:] if start >= 0 else ""
        return len(rest) if rest and any(tag.startswith(rest) for tag in _NEXT[self._inside]) else 0

    def _say(self, text: str) -> list[Delta]:
        part = _PARTS.get(self._inside)
        if part is None or not text:
            return []
        text = self._blank[part] + text if self._said[part] else text.lstrip()
        self._blank[part] = text[len(text.rstrip()) :]
        text = text.rstrip()
        self._said[part] += text
        return [Delta(part, text)] if text else []
