"""`/readyz` of the trainer: whether the record of its runs can be read and takes changes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from parallelsearch.errors import UpstreamUnavailable
from servicekit.health import Readiness
from trainer.store import Store

LOOK_EVERY_S = 1.0


@dataclass
class RecordProbe:
    """Looks once in `LOOK_EVERY_S` however often it is asked, since everybody may ask. `store` is None until it is open."""

    store: Store | None = None
    _fault: str = ""
    _looked: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self) -> Readiness:
        if self.store is None:
            return Readiness("starting")
        async with self._lock:
            if time.monotonic() - self._looked >= LOOK_EVERY_S:
                self._fault = await asyncio.to_thread(_fault, self.store)
                self._looked = time.monotonic()
        return Readiness("failed" if self._fault else "ready", {"record": self._fault or "ok"})


def _fault(store: Store) -> str:
    try:
        store.look()
    except UpstreamUnavailable as error:
        return error.detail
    return ""
