"""Lets generations in together, and a change of weights alone: while weights change, new requests wait and running ones finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from parallelsearch.errors import Overloaded

RETRY_AFTER_S = 2.0


class Gate:
    """`max_waiting` bounds the requests that wait for a change to end; one more is told to come back."""

    def __init__(self, max_waiting: int = 1_024) -> None:
        self.max_waiting = max_waiting
        self.inside = 0
        self.waiting = 0
        self._opened = asyncio.Event()
        self._opened.set()
        self._left = asyncio.Event()
        self._left.set()

    @property
    def closed(self) -> bool:
        return not self._opened.is_set()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Holds a place for one generation.

        Raises:
            Overloaded: a change of weights is under way and enough requests wait for it.
        """
        while self.closed:
            await self._wait()
        self.inside += 1
        self._left.clear()
        try:
            yield
        finally:
            self.inside -= 1
            if not self.inside:
                self._left.set()

    async def _wait(self) -> None:
        if self.waiting >= self.max_waiting:
            raise Overloaded("Weights are being changed and many requests wait for it. Try again.", retry_after_s=RETRY_AFTER_S)
        self.waiting += 1
        try:
            await self._opened.wait()
        finally:
            self.waiting -= 1

    @asynccontextmanager
    async def alone(self, timeout_s: float) -> AsyncIterator[None]:
        """Closes the gate, waits until all inside have left, and opens it again at the end.

        Raises:
            Overloaded: somebody else holds it, or a running generation did not end within `timeout_s`.
        """
        if self.closed:
            raise Overloaded("Another change of weights is under way. Try again when it is done.", retry_after_s=RETRY_AFTER_S)
        self._opened.clear()
        try:
            await self._drained(timeout_s)
            yield
        finally:
            self._opened.set()

    async def _drained(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._left.wait()
        except TimeoutError:
            raise Overloaded(
                f"A running generation did not end within {timeout_s:.0f} s, so the weights stay as they are. Try again.",
                retry_after_s=RETRY_AFTER_S,
            ) from None
