"""What the service needs of an engine. `vllm_server` implements it over vLLM; tests implement it in a few lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Device(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


class Engine(Protocol):
    @property
    def name(self) -> str:
        """The engine and its release, such as `vllm 0.32.0`."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        ...

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Texts that the tokenizer takes for control tokens wherever they stand."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the engine cannot serve any more, or None."""
        ...

    def tokens_processed(self) -> float:
        """A count that rises as long as the engine makes progress, on whatever request."""
        ...

    async def probe(self) -> None:
        """Generates one token, to show that it can."""
        ...
