"""Looks again and again for what is published, and has it served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

import structlog

from parallelsearch.errors import ParallelSearchError
from retriever.places import IndexPlaces, Published

log = structlog.get_logger(__name__)


class Watch:
    """Belongs to one event loop. What cannot be served is blamed once, and tried again when something else is published there or
    its files have changed and are still: a folder that is copied here has its manifest before it has the rest."""

    def __init__(
        self,
        places: IndexPlaces,
        every_s: float,
        serve: Callable[[str], Awaitable[object]],
        blame: Callable[[str, str], None],
        listed: Callable[[Collection[str]], None],
    ) -> None:
        """`serve` takes the name of an index, empty for the default one; `blame` also what is wrong, and `listed` the
        names of all indexes with a name that there are. 0 seconds: no watch."""
        self._places, self._every_s, self._serve, self._blame, self._listed = places, every_s, serve, blame, listed
        self._seen: dict[str, Published | None] = {}
        self._tried: dict[str, Published | None] = {}
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
            try:
                names = await asyncio.to_thread(self._places.names)
            except OSError as error:  # a mount that is gone for a while, say
                log.warning("indexes_not_listed", detail=str(error))
                continue
            self._listed(names)
            for gone in self._seen.keys() - {"", *names}:
                del self._seen[gone]
                self._tried.pop(gone, None)
            for name in ("", *names):
                await self._look(name)

    async def _look(self, name: str) -> None:
        before, published = self._seen.get(name), None
        try:
            published = await asyncio.to_thread(self._places.published, name)
            if published == self._tried.get(name) or (published != before and self._is_other_state(name, published)):
                return
            await self._serve(name)
            self._tried[name] = published
        except OSError as error:  # a version that was replaced while it was opened
            log.warning("index_not_opened", index=name, detail=str(error))
        except Exception as error:  # noqa: BLE001  # a GPU without room for a second index, say: the watch goes on
            will_pass = isinstance(error, ParallelSearchError) and error.retryable
            self._tried[name] = None if will_pass else published
            self._blame(name, error.detail if isinstance(error, ParallelSearchError) else f"{type(error).__name__}: {error}")
        finally:
            self._seen[name] = published

    def _is_other_state(self, name: str, published: Published) -> bool:
        """Whether this is the version that was tried, with other files."""
        tried = self._tried.get(name)
        return tried is not None and tried.fingerprint == published.fingerprint
