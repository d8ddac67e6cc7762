"""Trajectories kept for later in a SQLite file: read by their owner's key, exported for training."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import zlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import structlog

from gateway import metrics
from parallelsearch.errors import ConfigurationError, UpstreamUnavailable
from parallelsearch.schemas.answers import TrajectoryModel

log = structlog.get_logger(__name__)
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_owner ON answers (owner, at, id);
CREATE INDEX IF NOT EXISTS answers_by_age ON answers (at);
"""
DAY_S = 86_400.0
PRUNE_EVERY_S = 3_600.0
BUSY_S = 5.0
PAGE = 100


class TrajectoryStore:
    """One connection, owned by one thread. Rows older than `retention_days` are deleted at start and every hour."""

    def __init__(self, path: Path, *, retention_days: float) -> None:
        self._path = path
        self._retention_s = retention_days * DAY_S
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._connection: sqlite3.Connection | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Opens the file, which is made if need be, and keeps it pruned until the block ends.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        await self._run(self._connect)
        pruning = asyncio.create_task(self._prune_for_ever())
        try:
            yield
        finally:
            pruning.cancel()
            await asyncio.gather(pruning, return_exceptions=True)
            await self._run(lambda: self._sqlite.close())
            self._thread.shutdown()

    async def put(self, owner: str, trajectory: TrajectoryModel) -> None:
        """Keeps a trajectory. A store that cannot write is logged and counted; the answer goes out all the same."""
        body = zlib.compress(trajectory.model_dump_json().encode())
        try:
            await self._run(lambda: self._write("INSERT INTO answers VALUES (?, ?, ?, ?)", trajectory.id, owner, time.time(), body))
        except sqlite3.Error as error:
            metrics.STORE_FAILURES.inc()
            log.warning("trajectory_not_stored", error=str(error))

    async def get(self, owner: str, answer_id: str) -> bytes | None:
        """The trajectory as JSON; None if there is none of that id, or it is somebody else's.

        Raises:
            UpstreamUnavailable: the file cannot be read, as of `export` too.
        """
        rows = await self._read("SELECT body FROM answers WHERE id = ? AND owner = ?", answer_id, owner)
        return self._unpacked(rows[0][0]) if rows else None

    async def export(self, owner: str, *, since: float = 0.0) -> AsyncIterator[bytes]:
        """All trajectories of an owner that were stored at or after `since` (Unix seconds), oldest first, one JSON a line."""
        at, after = since, ""
        while True:
            rows = await self._read(
                "SELECT at, id, body FROM answers WHERE owner = ? AND (at > ? OR (at = ? AND id > ?)) ORDER BY at, id LIMIT ?",
                *(owner, at, at, after, PAGE),
            )
            for _, _, body in rows:
                yield self._unpacked(body) + b"\n"
            if len(rows) < PAGE:
                return
            at, after = rows[-1][0], rows[-1][1]

    async def prune(self) -> None:
        await self._run(lambda: self._write("DELETE FROM answers WHERE at < ?", time.time() - self._retention_s))

    async def _prune_for_ever(self) -> None:
        while True:
            try:
                await self.prune()
            except sqlite3.Error as error:
                log.warning("store_not_pruned", error=str(error))
            await asyncio.sleep(PRUNE_EVERY_S)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _read(self, sql: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]  # rows as sqlite gives them
        try:
            return await self._run(lambda: self._sqlite.execute(sql, values).fetchall())
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unpacked(self, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except zlib.error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> UpstreamUnavailable:
        metrics.STORE_FAILURES.inc()
        log.warning("store_not_read", path=str(self._path), error=str(error))
        return UpstreamUnavailable("The stored answers cannot be read at present; whoever runs this gateway finds why in its log.")

    @property
    def _sqlite(self) -> sqlite3.Connection:
        assert self._connection is not None, "the store is not open"
        return self._connection

    def _connect(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"GATEWAY_STORE_PATH: {self._path} cannot be used: {error}.") from error

    def _write(self, sql: str, *values: object) -> None:
        self._sqlite.execute(sql, values)
