"""The policy's contract beside vLLM's own routes: `GET /v1/policy` and `POST /v1/policy/weights`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from parallelsearch.protocol.observations import Layout
from parallelsearch.schemas.base import NonBlankText, WireModel


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
    tokenizer: str = ""
    """SHA-256 of what `GET /v1/policy/tokenizer` answers; empty where the tokenizer cannot be handed out."""


class WeightsRequest(WireModel):
    """The checkpoint to serve: a directory below an allowed root, with full weights or a LoRA adapter."""

    checkpoint: Annotated[NonBlankText, Field(max_length=4_096)]
    step: StrictInt | None = Field(default=None, ge=0)
