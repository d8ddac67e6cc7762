"""Looks again and again for what is published, and has it served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from parallelsearch.errors import ParallelSearchError
from retriever.places import IndexPlaces

log = structlog.get_logger(__name__)


class Watch:
    """Belongs to one event loop. What cannot be served is blamed once, until something else is published there."""

    def __init__(
        self, places: IndexPlaces, every_s: float, serve: Callable[[str], Awaitable[object]], blame: Callable[[str, str], None]
    ) -> None:
        """`serve` takes the name of an index, empty for the default one; `blame` also what is wrong. 0 seconds: no watch."""
        self._places, self._every_s, self._serve, self._blame = places, every_s, serve, blame
        self._tried: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._every_s:
            self._task = asyncio.create_task(self._run(), name="retriever-watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            for name in ("", *await asyncio.to_thread(self._places.names)):
                await self._look(name)

    async def _look(self, name: str) -> None:
        published = ""
        try:
            published = await asyncio.to_thread(self._places.fingerprint, name)
            if self._tried.get(name) == published:
                return
            await self._serve(name)
            self._tried[name] = published
        except OSError as error:  # a version that was replaced while it was opened
            log.warning("index_not_opened", index=name, detail=str(error))
        except Exception as error:  # noqa: BLE001  # a GPU without room for a second index, say: the watch goes on
            self._tried[name] = published
            self._blame(name, error.detail if isinstance(error, ParallelSearchError) else f"{type(error).__name__}: {error}")
