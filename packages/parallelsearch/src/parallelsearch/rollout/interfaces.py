"""What a rollout needs of the outside, as protocols: a search backend, a policy and a token counter.

The HTTP clients implement them for services, the shipped fakes for tests, OpenRLHF's tokenizer for training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from parallelsearch.rollout.types import PolicyIdentity, SubQueryResult


@dataclass(frozen=True, slots=True)
class SearchBatch:
    """One result per query, in order; `fingerprint` names the index that answered, `ranking` how it did (`IndexModel`)."""

    results: tuple[SubQueryResult, ...]
    fingerprint: str = ""
    ranking: str = ""


class SearchBackend(Protocol):
    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        """Searches all queries at once. A query that fails is marked, not raised.

        Raises:
            RetrievalFailed: nothing could be searched at all.
        """
        ...


class TokenCounter(Protocol):
    async def count(self, text: str) -> int:
        """Tokens of `text` in the policy's vocabulary, without special tokens added."""
        ...

    async def truncate(self, text: str, max_tokens: int) -> str:
        """The text of the first `max_tokens` tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the context after the prompt. `token_ids` are the policy's own as sampled; None where it is not the policy's."""

    author: Literal["policy", "environment"]
    text: str
    token_ids: tuple[int, ...] | None = None
    opening: bool = False
    """Written by the environment on the policy's behalf: the tag that opens its last answer."""


@dataclass(frozen=True, slots=True)
class Sampling:
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation; the stop string, if one ended it, is part of `text`. `token_ids` is empty where the server gives none."""

    text: str
    token_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    identity: PolicyIdentity | None = None


OnText = Callable[[str], None]
"""Is told each piece of text as the policy writes it."""


class Policy(TokenCounter, Protocol):
    async def count_prompt(self, prompt: str) -> int:
        """Tokens of the prompt as one user message through the model's chat template."""
        ...

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, *, on_text: OnText | None = None
    ) -> Generation:
        """Goes on from the prompt and what followed it. A policy that cannot stream never calls `on_text`.

        Raises:
            UpstreamUnavailable: the policy cannot be reached or answers badly.
        """
        ...
