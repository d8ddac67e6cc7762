"""Fits the results of a turn into a token budget: words of passages go first, then passages; never a tag, never a sub-query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from parallelsearch.protocol import observations
from parallelsearch.protocol.observations import CLOSE, OPEN, Layout
from parallelsearch.rollout.interfaces import TokenCounter
from parallelsearch.rollout.settings import ObservationSettings
from parallelsearch.rollout.types import SubQueryResult

MAX_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Rendered:
    """An observation and its length in tokens."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class _Group:
    """One sub-query's lines under a cap of words per passage and of passages."""

    number: int
    result: SubQueryResult
    words: int
    passages: int
    labelled: bool
    shown: frozenset[str]

    def lines(self, special_tokens: Sequence[str]) -> list[str]:
        cut = SubQueryResult(self.result.query, self.result.passages[: self.passages])
        return observations.group_lines(
            self.number, cut, self.words, labelled=self.labelled, shown=self.shown, special_tokens=special_tokens
        )

    def smaller(self, tokens: int, share: int) -> _Group:
        """A cap that should bring `tokens` down to `share`; at least one word or one passage fewer each time."""
        ratio = share / max(tokens, 1)
        longest = max((len(passage.text.split()) for passage in self.result.passages[: self.passages]), default=0)
        words, passages = min(self.words, longest), self.passages
        if words > 0:
            words = max(min(words - 1, int(words * ratio)), 0)
        else:
            passages = max(min(passages - 1, int(passages * ratio)), 0)
        return _Group(self.number, self.result, words, passages, self.labelled, self.shown)

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
    groups = _groups(results, settings, shown if settings.layout is Layout.COMPACT else ())
    text = _text(groups, settings)
    tokens = await counter.count(text)
    for _ in range(MAX_ROUNDS):
        if tokens <= budget or all(group.smallest for group in groups):
            break
        groups = await _shrink(groups, settings, counter, budget)
        text = _text(groups, settings)
        tokens = await counter.count(text)
    return Rendered(text, tokens)


def _groups(results: Sequence[SubQueryResult], settings: ObservationSettings, shown: Collection[str]) -> list[_Group]:
    words, labelled = settings.words(len(results)), len(results) > 1
    seen, groups = set(shown), []
    for number, result in enumerate(results, start=1):
        groups.append(_Group(number, result, words, len(result.passages), labelled, frozenset(seen)))
        if settings.layout is Layout.COMPACT:
            seen.update(passage.id for passage in result.passages)
    return groups


def _text(groups: Sequence[_Group], settings: ObservationSettings) -> str:
    lines = [line for group in groups for line in group.lines(settings.special_tokens)]
    return observations.wrap("\n".join(lines))


async def _shrink(groups: Sequence[_Group], settings: ObservationSettings, counter: TokenCounter, budget: int) -> list[_Group]:
    """Each group over its share gives way; a group under its share leaves the rest to the others."""
    counts = [await counter.count("\n".join(group.lines(settings.special_tokens))) for group in groups]
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
