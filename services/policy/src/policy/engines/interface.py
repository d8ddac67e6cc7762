"""What the service needs of an engine. `vllm_server` implements it over vLLM; tests implement it in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Device(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


class EngineFault(Exception):
    """The engine did not do what it was asked to."""


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
    def failure(self) -> str | None:
        """Why the engine cannot serve any more, or None."""
        ...

    def tokens_processed(self) -> float:
        """A count that rises as long as the engine makes progress, on whatever request."""
        ...

    def special_tokens(self) -> Sequence[str]:
        """The tokenizer's special tokens as text."""
        ...

    def tokenizer_json(self) -> str | None:
        """The tokenizer in the form of a `tokenizer.json`; None where it has no such form."""
        ...

    async def probe(self) -> None:
        """Generates one token, to show that it can.

        Raises:
            EngineFault: it failed, or the token's probability is no number.
        """
        ...

    async def load_weights(self, directory: Path) -> None:
        """Puts other weights of the same model into the engine and empties its prefix cache. Nothing may be generating.

        Raises:
            EngineFault: it failed; what the engine holds now is undefined.
        """
        ...
