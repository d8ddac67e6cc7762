"""The queue in front of the batcher: distinct queries, in an order that is fair to requests of every size.

A request's queries stand in rounds of `SHARE`; a new request starts in the round that is running. So a request of two
thousand queries does not hold up one of eight that comes later, and among requests of one round the first comes first.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from itertools import count

from parallelsearch.rollout.types import Passage
from retriever.searcher import Ask, BatchTimings

SHARE = 8


@dataclass(slots=True, eq=False)
class Ticket:
    """One request: done when none of its distinct queries is `open` any more."""

    done: asyncio.Future[None]
    open: int = 0


@dataclass(slots=True, eq=False)
class Entry:
    """One distinct query and the requests that wait for it."""

    query: Ask
    top_k: int
    since: float
    tickets: list[Ticket] = field(default_factory=list)
    started: float = 0.0
    passages: tuple[Passage, ...] = ()
    timings: BatchTimings = field(default_factory=BatchTimings)
    fingerprint: str = ""

    def settle(self, error: Exception | None = None) -> None:
        """Counts down every request that waits; the last query of a request, or an error, ends its wait."""
        for ticket in self.tickets:
            ticket.open -= 1
            if ticket.done.done():
                continue
            if error is not None:
                ticket.done.set_exception(error)
            elif ticket.open == 0:
                ticket.done.set_result(None)


class FairQueue:
    """Entries that wait. Not bounded by itself: the batcher asks `len` before it adds."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Entry]] = []
        self._waiting: dict[Ask, Entry] = {}
        self._round = 0
        self._arrivals = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, query: Ask) -> Entry | None:
        return self._waiting.get(query)

    def add(self, entry: Entry, position: int) -> None:
        """`position` counts the distinct queries of the same request that were added before."""
        self._waiting[entry.query] = entry
        heapq.heappush(self._heap, (self._round + position // SHARE, next(self._arrivals), entry))

    def drop(self, entry: Entry) -> None:
        """An entry that nobody waits for any more."""
        if self._waiting.get(entry.query) is entry:
            del self._waiting[entry.query]

    def take(self, most: int) -> list[Entry]:
        """The next entries to run, at most `most`."""
        taken: list[Entry] = []
        while self._heap and len(taken) < most:
            self._round, _, entry = heapq.heappop(self._heap)
            if self._waiting.get(entry.query) is entry:
                del self._waiting[entry.query]
                taken.append(entry)
        if not self._heap:
            self._round = 0
        return taken
