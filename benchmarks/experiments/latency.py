"""Experiment (c): what a round of 1 to 32 sub-queries costs, in search alone and with the generation that reads it.

The first turn of each rollout is dictated (so many sub-queries, in one round or one a round), all others are the policy's. Both
ways ask for the same passages; what differs is how many times policy and search are waited for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from parallelsearch.rollout.interfaces import Generation, Policy, Sampling, SearchBackend, Segment
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import Mode, PolicyIdentity

WIDTHS = (1, 2, 4, 8, 16, 32)
MAX_ROUNDS = 8
"""More rounds than that, one sub-query each, overflow the context; they are left out."""
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds, medians. `turn` is a whole rollout of one dictated round and one generation."""

    sub_queries: int
    search_together_ms: float
    search_one_by_one_ms: float
    turn_together_ms: float
    generations_one_by_one: int | None
    turn_one_by_one_ms: float | None


class Dictated:
    """A policy whose first turns are dictated and cost one generation each all the same; then it goes on by itself."""

    def __init__(self, policy: Policy, turns: Sequence[Sequence[str]]) -> None:
        self._policy = policy
        self._turns = [f"<think> I look this up. </think>\n\n<search> {' ## '.join(queries)} </search>" for queries in turns]
        self.generations = 0

    async def count(self, text: str) -> int:
        return await self._policy.count(text)

    async def truncate(self, text: str, max_tokens: int) -> str:
        return await self._policy.truncate(text, max_tokens)

    async def count_prompt(self, prompt: str) -> int:
        return await self._policy.count_prompt(prompt)

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, on_text: Callable[[str], None] | None = None
    ) -> Generation:
        generation = await self._policy.generate(prompt, segments, sampling)
        self.generations += 1
        if self.generations > len(self._turns):
            return generation
        text = self._turns[self.generations - 1]
        return replace(generation, text=text, token_ids=(), completion_tokens=await self._policy.count(text))


async def measure(
    policy: Policy, search: SearchBackend, settings: RolloutSettings, queries: Sequence[str]
) -> list[dict[str, object]]:
    """One row per width, on distinct queries each time so that nothing is remembered."""
    rows: list[Row] = []
    supply = iter(queries)
    for width in WIDTHS:
        together, one_by_one, turn_together, turn_apart = [], [], [], []
        for _ in range(REPEATS):
            batches = [[next(supply) for _ in range(width)] for _ in range(4)]
            together.append(await _timed(search, [batches[0]]))
            one_by_one.append(await _timed(search, [[query] for query in batches[1]]))
            turn_together.append((await _rollout(policy, search, settings, [batches[2]]))[0])
            if width <= MAX_ROUNDS:
                turn_apart.append(await _rollout(policy, search, settings, [[query] for query in batches[3]]))
        rows.append(
            Row(
                sub_queries=width,
                search_together_ms=statistics.median(together),
                search_one_by_one_ms=statistics.median(one_by_one),
                turn_together_ms=statistics.median(turn_together),
                generations_one_by_one=max(calls for _, calls in turn_apart) if turn_apart else None,
                turn_one_by_one_ms=statistics.median(took for took, _ in turn_apart) if turn_apart else None,
            )
        )
    return [asdict(row) for row in rows]


async def _timed(search: SearchBackend, rounds: Sequence[Sequence[str]]) -> float:
    started = time.perf_counter()
    for queries in rounds:
        await search.search(queries, 3)
    return (time.perf_counter() - started) * 1000


async def _rollout(
    policy: Policy, search: SearchBackend, settings: RolloutSettings, turns: Sequence[Sequence[str]]
) -> tuple[float, int]:
    """Milliseconds and generations of a rollout that searches as dictated and then answers at once."""
    dictated = Dictated(policy, turns)
    limits = replace(settings, mode=Mode.PARALLEL, max_turns=len(turns), max_sub_queries=max(WIDTHS))
    request = RolloutRequest("latency", "What do these have in common?", limits, deadline_s=120.0)
    trajectory = await run_rollout(request, dictated, search, identity=PolicyIdentity("dictated"))
    return trajectory.timings.total_ms, dictated.generations
