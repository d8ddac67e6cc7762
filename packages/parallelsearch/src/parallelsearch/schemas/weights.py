"""The policy's contract beside vLLM's own routes: `GET /v1/policy`."""

from __future__ import annotations

from parallelsearch.protocol.observations import Layout
from parallelsearch.schemas.base import WireModel


class PolicyInfo(WireModel):
    """The policy that is served. `version` is a rising integer as text; `step` the training step of its weights, where known."""

    model: str
    version: str
    step: int | None = None
    engine: str
    device: str
    context_length: int
    layout: Layout
    turn_tokens: int | None = None
    special_tokens: list[str] = []
    """What must not stand in passages or questions, since the tokenizer would read it as control tokens."""
