"""Keeps excluded rollouts out of what their group learns.

OpenRLHF has no way to leave a rollout out: a group's baseline is the mean over all of it. An excluded rollout therefore waits
for the others of its group and takes the mean of their rewards, which leaves the mean as it is and gives itself no advantage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


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
        """The reward to learn from: one's own, or for None (excluded) the mean of the group's others, 0.0 if there are none."""
        if reward is not None:
            self.group.rewards.append(reward)
        self.settle()
        if reward is not None:
            return reward
        await self.group.over.wait()
        return sum(self.group.rewards) / len(self.group.rewards) if self.group.rewards else 0.0

    def settle(self) -> None:
        """Says that this rollout's reward is known, or will never be."""
        if not self.settled:
            self.settled = True
            self.group.running -= 1
            if self.group.running == 0:
                self.group.over.set()


class Groups:
    """The rollouts in flight of each question, by a key that they share."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    @contextmanager
    def member(self, key: str) -> Iterator[Member]:
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
