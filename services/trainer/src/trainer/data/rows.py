"""Lines of cold-start files. What reads and writes such files is not needed to judge one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from parallelsearch.schemas.base import WireModel


class SegmentRow(WireModel):
    author: Literal["policy", "environment"]
    text: str


class ColdStartRow(WireModel):
    """A line of a cold-start file: the user message, then what policy and environment wrote in turn, the answer last."""

    prompt: str
    segments: list[SegmentRow] = Field(min_length=1)
