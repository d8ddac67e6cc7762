"""What rides along with a prompt through OpenRLHF, whose label column is a plain value: packed as JSON."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from pydantic import Field, field_validator

from parallelsearch.reward.exact_match import normalise
from parallelsearch.rollout.types import Kind
from parallelsearch.schemas.base import NonBlankText, WireModel

Split = Literal["train", "eval"]
_NO_LETTER = re.compile(r"[^\w\s]")
_KEPT = "LMN"
"""Of Unicode's categories: not quotes, dashes, question marks and symbols of any language, nor what is not seen at all."""


class Label(WireModel):
    """The question of a rollout and what its reward goes by.

    A run deals its questions, some of them more than once; each draw has a number, and the rollouts of a draw are a group.
    """

    id: str
    question: NonBlankText
    kind: Kind
    golden_answers: list[NonBlankText] = Field(min_length=1)
    split: Split = "train"
    draw: int | None = None

    @property
    def group(self) -> tuple[str, int | None]:
        """The same for the rollouts that are compared; ids of several data sets may be the same."""
        return self.id, self.draw


def question_key(question: str) -> str:
    """The same for a question in other case, with other articles, spaces or punctuation, or in another of Unicode's forms."""
    folded = unicodedata.normalize("NFKC", question).casefold()
    words = _NO_LETTER.sub(lambda found: found[0] if unicodedata.category(found[0])[0] in _KEPT else "", folded)
    return "".join(normalise(words).split()) or " ".join(question.split())


class PromptRow(WireModel):
    """A line of a prompt file: the user message, and the label as a JSON string. `datasource` groups OpenRLHF's evaluation."""

    prompt: NonBlankText
    label: str
    datasource: str = "default"

    @field_validator("label")
    @classmethod
    def _holds_a_label(cls, label: str) -> str:
        Label.model_validate_json(label)
        return label

    @property
    def unpacked(self) -> Label:
        return Label.model_validate_json(self.label)

    def drawn(self, draw: int) -> PromptRow:
        return self.model_copy(update={"label": self.unpacked.model_copy(update={"draw": draw}).model_dump_json()})
