"""Shipped fakes: a policy that follows a script and an in-memory retriever. For tests and for trying the loop out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from parallelsearch.errors import RetrievalFailed
from parallelsearch.rollout.interfaces import Generation, OnText, Sampling, SearchBatch, Segment
from parallelsearch.rollout.types import EVERYWHERE, Passage, PolicyIdentity, Scope, SubQueryResult


class WordCounter:
    """Counts words as tokens, white space aside."""

    async def count(self, text: str) -> int:
        return len(text.split())

    async def truncate(self, text: str, max_tokens: int) -> str:
        return " ".join(text.split()[:max_tokens])


Line = str | Exception | Callable[[str], str]


class ScriptedPolicy(WordCounter):
    """Says the next line of its script at each generation; a callable line gets the whole context; an exception is raised."""

    def __init__(self, script: Sequence[Line], *, latency_s: float = 0.0) -> None:
        self.script = list(script)
        self.latency_s = latency_s
        self.contexts: list[str] = []
        """The text that each generation was given."""

    async def count_prompt(self, prompt: str) -> int:
        return await self.count(prompt)

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, *, on_text: OnText | None = None
    ) -> Generation:
        context = prompt + "".join(segment.text for segment in segments)
        self.contexts.append(context)
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        line = self.script[len(self.contexts) - 1]
        if isinstance(line, Exception):
            raise line
        text = line(context) if callable(line) else line
        if on_text is not None:
            for character in text:
                on_text(character)
        return Generation(text, (), await self.count(context), await self.count(text), PolicyIdentity("scripted", version="1"))


class InMemoryRetriever:
    """Answers each query with the passages filed under it; a query filed as None fails; unknown queries find nothing."""

    def __init__(self, passages: Mapping[str, Sequence[Passage] | None], *, fingerprint: str = "in-memory") -> None:
        self.passages = passages
        self.fingerprint = fingerprint
        self.batches: list[tuple[str, ...]] = []
        """The queries of each search, as they came."""

    async def search(self, queries: Sequence[str], top_k: int, scope: Scope = EVERYWHERE) -> SearchBatch:
        self.batches.append(tuple(queries))
        results = tuple(self._one(query, top_k) for query in queries)
        if queries and all(result.failed for result in results):
            raise RetrievalFailed("No sub-query could be searched.")
        return SearchBatch(results, self.fingerprint)

    def _one(self, query: str, top_k: int) -> SubQueryResult:
        found = self.passages.get(query, ())
        if found is None:
            return SubQueryResult(query, failed=True)
        return SubQueryResult(query, tuple(found)[:top_k])
