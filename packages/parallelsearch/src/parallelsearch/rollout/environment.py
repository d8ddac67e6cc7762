"""The environment of one rollout. `SearchEnvironment.step` takes every decision; loops around it only generate.

The order in which a turn is judged:

1. The text is parsed (`protocol.actions`): the first complete block is the action.
2. An answer ends the rollout (`answered`).
3. In the last generation only an answer counts: anything else ends it (`turn_limit`; `malformed` if it was no search either).
4. A malformed turn gets a hint as its observation.
5. A search that only repeats sub-queries of this rollout is refused with a hint, if `refuse_repeats`.
6. All sub-queries are searched at once; if all fail the rollout ends (`retrieval_failed`).
7. The observation is fitted into its budget and into the context; oldest observations shrink first, if `shrink_context`;
   if there is no room for another generation the rollout ends (`context_limit`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from parallelsearch.errors import RetrievalFailed
from parallelsearch.protocol import observations
from parallelsearch.protocol.actions import ParsedTurn, parse_opened_answer, parse_turn, query_key
from parallelsearch.protocol.tags import ANSWER
from parallelsearch.rollout.interfaces import SearchBackend, Segment, TokenCounter
from parallelsearch.rollout.observation_fit import Rendered, render_observation
from parallelsearch.rollout.observer import RolloutObserver
from parallelsearch.rollout.settings import OPENING_TOKENS, RolloutSettings
from parallelsearch.rollout.types import (
    Answer,
    Malformed,
    Search,
    StopReason,
    SubQueryResult,
    Turn,
    TurnTimings,
)

OPENING = f"<{ANSWER}>"
MIN_OBSERVATION_TOKENS = 64
NOTHING = Rendered("", 0)


@dataclass(frozen=True, slots=True)
class Step:
    """What a turn led to. `observation` is new text for the context; `opening` is what the next generation starts with."""

    turn: Turn
    observation: str = ""
    opening: str = ""
    stop_reason: StopReason | None = None

    @property
    def done(self) -> bool:
        return self.stop_reason is not None


@dataclass(slots=True, eq=False)
class _Exchange:
    """A turn's place in the context: what the policy wrote, and the observation that followed, which may shrink."""

    policy: Segment
    policy_tokens: int
    results: tuple[SubQueryResult, ...] = ()
    observation: Rendered = NOTHING


class SearchEnvironment:
    """Lives for one rollout. `prompt_tokens` is the length of the prompt as the policy reads it."""

    def __init__(
        self,
        settings: RolloutSettings,
        search: SearchBackend,
        counter: TokenCounter,
        *,
        prompt_tokens: int,
        observer: RolloutObserver | None = None,
    ) -> None:
        self.settings = settings
        self.turns: list[Turn] = []
        self.answer: str | None = None
        self.fingerprint = ""
        self._search = search
        self._counter = counter
        self._prompt_tokens = prompt_tokens
        self._observer = observer or RolloutObserver()
        self._exchanges: list[_Exchange] = []
        self._searched: set[str] = set()
        self._no_more_searches = False

    @property
    def fits(self) -> bool:
        """Whether there is room for a generation."""
        return self._room() >= 0

    @property
    def overflow(self) -> str:
        """Why not, where there is none for the first."""
        settings = self.settings
        return (
            f"The prompt takes {self._prompt_tokens} tokens, and a turn up to {settings.turn_tokens}: "
            f"the context of {settings.context_tokens} has no room for both."
        )

    @property
    def is_last(self) -> bool:
        """Whether the next generation is the one in which only an answer counts."""
        return self._no_more_searches or len(self.turns) >= self.settings.searches

    def stop_searching(self) -> None:
        """Makes the next generation the last, since time is short."""
        self._no_more_searches = True

    @property
    def opening(self) -> str:
        """What the environment writes before the next generation, on the policy's behalf."""
        return OPENING if self.is_last and self.settings.open_last_answer else ""

    def segments(self) -> list[Segment]:
        """The context after the prompt, as the next generation should read it."""
        context: list[Segment] = []
        for exchange in self._exchanges:
            context.append(exchange.policy)
            if exchange.observation.text:
                context.append(Segment("environment", exchange.observation.text))
        if self.opening:
            context.append(Segment("environment", self.opening, opening=True))
        return context

    async def step(
        self, text: str, *, token_ids: tuple[int, ...] | None = None, tokens: int | None = None, policy_ms: float = 0.0
    ) -> Step:
        """Takes what the policy wrote this turn (without an opening) to what follows from it.

        `token_ids` are the policy's own, kept as they are; `tokens` is their number where the ids are unknown.
        """
        parsed = self._parse(text)
        text = text[: parsed.length]
        if tokens is None:
            tokens = len(token_ids) if token_ids is not None else await self._counter.count(text)
        exchange = _Exchange(Segment("policy", text, token_ids), tokens)
        turn = Turn(len(self.turns), text, parsed.reasoning, parsed.action, timings=TurnTimings(policy_ms=policy_ms))
        last = self.is_last
        self._exchanges.append(exchange)
        self.turns.append(turn)
        self._observer.turn_parsed(turn)
        match turn.action:
            case Answer(answer):
                self.answer = answer
                return Step(turn, stop_reason=StopReason.ANSWERED)
            case _ if last:
                searched = isinstance(turn.action, Search)
                return Step(turn, stop_reason=StopReason.TURN_LIMIT if searched else StopReason.MALFORMED)
            case Malformed():
                return await self._observe_hint(exchange, turn, observations.MALFORMED_HINT)
            case Search() if self.settings.refuse_repeats and self._only_repeats(turn.action):
                return await self._observe_hint(exchange, replace(turn, repeated=True), observations.REPEATED_HINT)
            case Search(queries):
                return await self._observe_search(exchange, turn, queries)

    def _parse(self, text: str) -> ParsedTurn:
        if self.opening:
            return parse_opened_answer(text)
        return parse_turn(text, max_sub_queries=self.settings.sub_query_limit)

    def _only_repeats(self, search: Search) -> bool:
        return all(query_key(query) in self._searched for query in search.queries)

    async def _observe_hint(self, exchange: _Exchange, turn: Turn, hint: str) -> Step:
        text = observations.wrap(hint)
        exchange.observation = Rendered(text, await self._counter.count(text))
        return await self._continue(exchange, turn)

    async def _observe_search(self, exchange: _Exchange, turn: Turn, queries: Sequence[str]) -> Step:
        self._observer.search_started(turn)
        started, batch = time.perf_counter(), None
        try:
            with suppress(RetrievalFailed):
                batch = await self._search.search(queries, self.settings.top_k)
        finally:  # also of a search that the deadline breaks off
            search_ms = (time.perf_counter() - started) * 1000
            turn = self.turns[-1] = replace(turn, timings=replace(turn.timings, search_ms=search_ms))
        if batch is None:
            failed = tuple(SubQueryResult(query, failed=True) for query in queries)
            return self._end(replace(turn, observation=failed), StopReason.RETRIEVAL_FAILED)
        turn = replace(turn, observation=batch.results)
        self.fingerprint = batch.fingerprint or self.fingerprint
        if all(result.failed for result in batch.results):
            return self._end(turn, StopReason.RETRIEVAL_FAILED)
        self._searched.update(query_key(query) for query in queries)
        exchange.results = batch.results
        budget = self.settings.observation.budget(len(batch.results))
        exchange.observation = await self._render(exchange, budget)
        return await self._continue(exchange, turn)

    async def _render(self, exchange: _Exchange, budget: int) -> Rendered:
        before = self._exchanges[: self._exchanges.index(exchange)]
        shown = frozenset[str]().union(*(earlier.observation.shown for earlier in before))
        return await render_observation(exchange.results, self.settings.observation, self._counter, budget=budget, shown=shown)

    async def _continue(self, exchange: _Exchange, turn: Turn) -> Step:
        """Makes room for the next generation, or ends the rollout if there is none to be made."""
        await self._make_room(exchange)
        if not self.fits:
            exchange.observation = NOTHING
            return self._end(turn, StopReason.CONTEXT_LIMIT)
        self.turns[-1] = turn
        self._observer.turn_observed(turn)
        return Step(turn, exchange.observation.text, self.opening)

    async def _make_room(self, newest: _Exchange) -> None:
        candidates = [*self._exchanges[:-1], newest] if self.settings.shrink_context else [newest]
        for exchange in candidates:
            if self.fits:
                return
            if exchange.results:
                smaller = max(exchange.observation.tokens + self._room(), MIN_OBSERVATION_TOKENS)
                exchange.observation = await self._render(exchange, smaller)

    def _room(self) -> int:
        """Tokens left in the context after one more generation of full length; negative if there is no room for it."""
        used = self._prompt_tokens + sum(e.policy_tokens + e.observation.tokens for e in self._exchanges)
        return self.settings.context_tokens - used - self.settings.turn_tokens - OPENING_TOKENS

    def _end(self, turn: Turn, reason: StopReason) -> Step:
        self.turns[-1] = turn
        return Step(turn, stop_reason=reason)
