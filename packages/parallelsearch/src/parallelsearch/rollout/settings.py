"""What governs a rollout: limits, layout and options, as one frozen value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from parallelsearch.protocol.observations import Layout
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.types import Mode

PaperCut = Literal["published", "tag_safe"]
"""How the published layout cuts an observation: as published, closing tag and all, or before the tag."""
OPENING_TOKENS = 8
"""More than any tokenizer needs for the opening tag."""


@dataclass(frozen=True, slots=True)
class ObservationSettings:
    """How much of the results a policy sees. Word and token limits are per passage and per observation."""

    layout: Layout = Layout.LABELLED
    passage_words: int = 120
    passage_words_wide: int = 60
    """Used with more than two sub-queries."""
    budget_tokens: int = 1_000
    budget_tokens_further: int = 250
    """Added for each sub-query beyond two; not in the published layout, which cuts each observation at the same length."""
    paper_cut: PaperCut = "tag_safe"
    special_tokens: tuple[str, ...] = ()

    def words(self, sub_queries: int) -> int:
        return self.passage_words if sub_queries <= 2 else self.passage_words_wide

    def budget(self, sub_queries: int) -> int:
        further = 0 if self.layout is Layout.PAPER else max(0, sub_queries - 2)
        return self.budget_tokens + self.budget_tokens_further * further


class ObservationLimits(Protocol):
    """What whoever serves a policy and whoever trains it set alike of what it sees."""

    @property
    def observation_tokens(self) -> int: ...
    @property
    def observation_tokens_further(self) -> int: ...
    @property
    def passage_words(self) -> int: ...
    @property
    def passage_words_wide(self) -> int: ...
    @property
    def paper_cut(self) -> PaperCut: ...


def observation_settings(limits: ObservationLimits, layout: Layout, special_tokens: Sequence[str]) -> ObservationSettings:
    return ObservationSettings(
        layout=layout,
        passage_words=limits.passage_words,
        passage_words_wide=limits.passage_words_wide,
        budget_tokens=limits.observation_tokens,
        budget_tokens_further=limits.observation_tokens_further,
        paper_cut=limits.paper_cut,
        special_tokens=tuple(special_tokens),
    )


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """Limits of one rollout, and what is done beside them. The defaults serve."""

    mode: Mode = Mode.PARALLEL
    top_k: int = 3
    max_turns: int = 4
    max_sub_queries: int = 8
    turn_tokens: int = 500
    context_tokens: int = 4_096
    observation: ObservationSettings = ObservationSettings()
    open_last_answer: bool = True
    """The last generation starts with `<answer>`, so that there always is one."""
    refuse_repeats: bool = True
    """A turn that only repeats sub-queries of this rollout is not searched again."""
    shrink_context: bool = True
    """Old observations shrink when the context would overflow; else the rollout ends (a trainer only appends)."""

    @property
    def searches(self) -> int:
        return 0 if self.mode is Mode.NO_SEARCH else self.max_turns

    @property
    def sub_query_limit(self) -> int:
        return 1 if self.mode is Mode.SEQUENTIAL else self.max_sub_queries

    def as_published(self) -> RolloutSettings:
        """The same, but with what the published environment lacks left out, where its layout is the policy's."""
        if self.observation.layout is not Layout.PAPER:
            return self
        return replace(self, open_last_answer=False, refuse_repeats=False)


def least_context(turn_tokens: int, mode: Mode = Mode.SEQUENTIAL) -> int:
    """Tokens without which a context has no room for the prompt and one turn, whatever is asked: each word is a token at least."""
    return len(build_prompt("", mode).split()) + turn_tokens + OPENING_TOKENS
