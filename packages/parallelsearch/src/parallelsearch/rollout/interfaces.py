"""What a rollout needs of the outside, as protocols: a search backend, a policy and a token counter.

The HTTP clients implement them for services, the shipped fakes for tests, OpenRLHF's tokenizer for training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from parallelsearch.rollout.types import SubQueryResult


@dataclass(frozen=True, slots=True)
class SearchBatch:
    """One result per query, in order; `fingerprint` names the index that answered."""

    results: tuple[SubQueryResult, ...]
    fingerprint: str = ""


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
