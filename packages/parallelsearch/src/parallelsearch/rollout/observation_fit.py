"""Fits the results of a turn into a token budget: words of passages go first, then passages; never a tag, never a sub-query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from parallelsearch.protocol import observations
from parallelsearch.protocol.observations import CLOSE, OPEN, Layout
from parallelsearch.rollout.interfaces import TokenCounter
from parallelsearch.rollout.settings import ObservationSettings
from parallelsearch.rollout.types import Passage, SubQueryResult

MAX_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Rendered:
    """An observation, its length in tokens, and the ids of the passages of which text can be read in it."""

    text: str
    tokens: int
    shown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Group:
    """One sub-query's lines under a cap of words per passage and of passages."""

    number: int
    result: SubQueryResult
    words: int
    passages: int
    labelled: bool

    @property
    def kept(self) -> tuple[Passage, ...]:
        return self.result.passages[: self.passages]

    def lines(self, shown: Collection[str], special_tokens: Sequence[str]) -> list[str]:
        cut = SubQueryResult(self.result.query, self.kept)
        return observations.group_lines(
            self.number, cut, self.words, labelled=self.labelled, shown=shown, special_tokens=special_tokens
        )

    def smaller(self, tokens: int, share: int) -> _Group:
        """A cap that should bring `tokens` down to `share`; at least one word or one passage fewer each time."""
        ratio = share / max(tokens, 1)
        longest = max((observations.count_words(passage.text) for passage in self.kept), default=0)
        words, passages = min(self.words, longest), self.passages
        if words > 0:
            words = max(min(words - 1, int(words * ratio)), 0)
        else:
            passages = max(min(passages - 1, int(passages * ratio)), 0)
        return _Group(self.number, self.result, words, passages, self.labelled)

    @property
    def smallest(self) -> bool:
        return self.words == 0 and self.passages == 0


async def render_observation(
    results: Sequence[SubQueryResult],
    settings: ObservationSettings,
    counter: TokenCounter,
    *,
    budget: int,
    shown: Collection[str] = (),
) -> Rendered:
    """The observation of a turn in the policy's layout, at most `budget` tokens (unless its labels alone are more).

    `shown` are the ids of passages that stand in the context already; only `compact` makes use of it.
    """
    if settings.layout is Layout.PAPER:
        return await _render_paper(results, settings, counter, budget)
    words, labelled = settings.words(len(results)), len(results) > 1
    groups = [_Group(number, result, words, len(result.passages), labelled) for number, result in enumerate(results, start=1)]
    for rounds_left in range(MAX_ROUNDS, -1, -1):
        parts = _parts(groups, settings, shown)
        text = observations.wrap("\n".join(part for part in parts if part))
        tokens = await counter.count(text)
        if tokens <= budget or not rounds_left or all(group.smallest for group in groups):
            break
        groups = await _shrink(groups, parts, counter, budget)
    return Rendered(text, tokens, frozenset(passage.id for group in groups if group.words for passage in group.kept))


def _parts(groups: Sequence[_Group], settings: ObservationSettings, shown: Collection[str]) -> list[str]:
    """The lines of each group. In `compact` a passage is only referred to where its text stands further up."""
    seen = set(shown) if settings.layout is Layout.COMPACT else set[str]()
    parts = []
    for group in groups:
        parts.append("\n".join(group.lines(seen, settings.special_tokens)))
        if settings.layout is Layout.COMPACT and group.words:
            seen.update(passage.id for passage in group.kept)
    return parts


async def _shrink(groups: Sequence[_Group], parts: Sequence[str], counter: TokenCounter, budget: int) -> list[_Group]:
    """Each group over its share gives way; a group under its share leaves the rest to the others."""
    counts = [await counter.count(part) for part in parts]
    left = budget - await counter.count(OPEN + CLOSE) - len(groups)
    share, waiting = 0, sorted(counts)
    for position, count in enumerate(waiting):
        share = max(left, 0) // (len(waiting) - position)
        if count > share:
            break
        left -= count
    return [group.smaller(count, share) if count > share else group for group, count in zip(groups, counts, strict=True)]


async def _render_paper(
    results: Sequence[SubQueryResult], settings: ObservationSettings, counter: TokenCounter, budget: int
) -> Rendered:
    body = observations.paper_body(results, settings.special_tokens)
    text = observations.wrap(body)
    tokens = await counter.count(text)
    if tokens <= budget:
        return Rendered(text, tokens)
    if settings.paper_cut == "published":
        text = await counter.truncate(text, budget)
    else:
        room = max(budget - await counter.count(OPEN + CLOSE), 0)
        text = observations.wrap(await counter.truncate(body, room))
    return Rendered(text, await counter.count(text))
