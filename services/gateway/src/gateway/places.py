"""Bounded permits: what is over the bound is refused at once, so that overload is an answer and not a queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Gauge

from parallelsearch.errors import Overloaded


class Places:
    """So many places for things that take time; `gauge` shows how many are taken."""

    def __init__(self, limit: int, name: str, gauge: Gauge) -> None:
        self._limit = limit
        self._name = name
        self._gauge = gauge
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Holds a place for the length of the block.

        Raises:
            Overloaded: all are taken.
        """
        if self._taken >= self._limit:
            raise Overloaded(f"All {self._limit} places for {self._name} are taken. Try again shortly.", retry_after_s=1)
        self._taken += 1
        self._gauge.set(self._taken)
        try:
            yield
        finally:
            self._taken -= 1
            self._gauge.set(self._taken)
