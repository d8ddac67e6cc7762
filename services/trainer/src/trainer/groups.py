"""What OpenRLHF's comparison within a group needs of our rewards.

It has no way to leave a rollout out: a group's baseline is the mean over all of it. An excluded rollout therefore waits for the
others of its group and takes the mean of their rewards, which leaves the mean as it is and gives itself no advantage.

And it divides what is left by the group's standard deviation plus 1e-9, in float32. Eight times 1.8 have a mean of 1.8000001 there
and a deviation of 0, so that eight perfect rollouts would get an advantage of -119, and be unlearnt. `exact` rewards have an
exact mean.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

REWARD_BITS = 14
"""A float32 has 24: sums of up to `MAX_SAMPLES` equal rewards are exact."""


def exact(reward: float) -> float:
    """The reward in `REWARD_BITS` significant bits, which changes it by at most 0.004 %."""
    fraction, exponent = math.frexp(reward)
    return math.ldexp(round(fraction * 2**REWARD_BITS), exponent - REWARD_BITS)


@dataclass(slots=True)
class _Group:
    running: int = 0
    rewards: list[float] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Member:
    """One rollout of a group."""

    group: _Group
    settled: bool = False

    async def learn(self, reward: float | None) -> float:
        """The reward to learn from, `exact`: one's own, or for None (excluded) the mean of the group's others, 0.0 without any."""
        if reward is not None:
            self.group.rewards.append(exact(reward))
        self.settle()
        if reward is not None:
            return exact(reward)
        await self.group.over.wait()
        return exact(sum(self.group.rewards) / len(self.group.rewards)) if self.group.rewards else 0.0

    def settle(self) -> None:
        """Says that this rollout's reward is known, or will never be."""
        if not self.settled:
            self.settled = True
            self.group.running -= 1
            if self.group.running == 0:
                self.group.over.set()


class Groups:
    """The rollouts in flight of each draw of a question, by a key that they share."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}

    @contextmanager
    def member(self, key: Hashable) -> Iterator[Member]:
        """A rollout of the group while it lasts; one that breaks off keeps no other waiting."""
        group = self._groups.get(key)
        if group is None or group.over.is_set():
            group = self._groups[key] = _Group()
        group.running += 1
        member = Member(group)
        try:
            yield member
        finally:
            member.settle()
            if group.over.is_set() and self._groups.get(key) is group:
                del self._groups[key]
