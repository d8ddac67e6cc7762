"""Lines of cold-start files. What reads and writes such files is not needed to judge one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from parallelsearch.schemas.base import NonBlankText, WireModel


class SegmentRow(WireModel):
    author: Literal["policy", "environment"]
    text: str


class ColdStartRow(WireModel):
    """A line of a cold-start file: the user message, then what policy and environment wrote in turn, the answer last."""

    prompt: NonBlankText
    segments: list[SegmentRow] = Field(min_length=1)

    @model_validator(mode="after")
    def _something_is_learnt(self) -> ColdStartRow:
        if not any(segment.author == "policy" and segment.text.strip() for segment in self.segments):
            raise ValueError("segments: the policy wrote none of them, so that there is nothing to learn")
        return self
