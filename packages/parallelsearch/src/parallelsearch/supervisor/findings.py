"""What a check of the machine finds: a line that says OK, or the problem and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """A problem keeps the platform from starting or working; a note does not."""

    name: str
    level: Level
    text: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.name}: {self.text}. {self.remedy}".strip()


def finding(name: str, fine: bool, text: str, remedy: str) -> Finding:
    return Finding(name, Level.OK, text) if fine else Finding(name, Level.PROBLEM, text, remedy)
