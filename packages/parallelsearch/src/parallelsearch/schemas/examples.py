"""`GET /v1/examples`: questions that the demo corpus can answer."""

from __future__ import annotations

from typing import Literal

from parallelsearch.schemas.base import WireModel


class Example(WireModel):
    """`kind` says how the question falls apart; `single` asks for one look-up."""

    kind: Literal["parallel", "sequential", "hybrid", "single"]
    question: str


class ExampleList(WireModel):
    examples: list[Example]
