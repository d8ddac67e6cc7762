"""The SQLite file of the training runs: opened, written to and looked after. What stands in it is the store's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from sqlalchemy import URL, create_engine, event
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.orm import DeclarativeBase, Session

from parallelsearch.errors import ConfigurationError, UpstreamUnavailable

WAIT_MS = 10_000
"""For the lock of another process, before a change is given up."""
LOOK_MS = 1_000
"""The same where it is only asked how the file is."""
SEE_TO = "See to TRAINER_RUNS_DIR."


class Database:
    """Thread-safe; a change is on disk when its block has ended. The file that is at `path` is meant, whichever that is now."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        url = URL.create("sqlite", database=f"file:{quote(str(self._path))}", query={"mode": "rw", "uri": "true"})
        self._engine = create_engine(url, connect_args={"timeout": WAIT_MS / 1000})
        event.listen(self._engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL"))
        self._opened: tuple[int, int] | None = None
        self._lock = Lock()

    def prepare(self, tables: type[DeclarativeBase]) -> None:
        """Makes the file, its tables and their indexes where they are not there.

        Raises:
            ConfigurationError: the file is damaged, held by another process, or of another version.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
            self._make(tables)
        except OSError as error:
            raise _unusable(self._path, str(error)) from None
        except DatabaseError as error:
            self.close()
            raise _unusable(self._path, str(error.orig)) from None

    def _make(self, tables: type[DeclarativeBase]) -> None:
        self._heed_moves()
        tables.metadata.create_all(self._engine)
        with self._engine.connect() as connection:
            for table in tables.metadata.sorted_tables:
                connection.execute(table.select().limit(1))
                for index in table.indexes:
                    index.create(connection, checkfirst=True)
            connection.commit()
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            if found != "ok":
                raise DatabaseError("PRAGMA quick_check", None, ValueError(found))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Raises UpstreamUnavailable: the file cannot be read now."""
        try:
            self._heed_moves()
            with Session(self._engine) as session:
                yield session
        except (DatabaseError, NoConnection) as error:
            raise UpstreamUnavailable(f"Training runs cannot be read: {_said(error)}. {SEE_TO}") from error

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Raises UpstreamUnavailable: a full disk, say, takes no change now. IntegrityError: the row is there already."""
        try:
            self._heed_moves()
            with Session(self._engine) as session, session.begin():
                yield session
        except IntegrityError:
            raise
        except (DatabaseError, NoConnection) as error:
            raise UpstreamUnavailable(f"Training runs cannot be recorded: {_said(error)}. {SEE_TO}") from error

    def look(self, tables: type[DeclarativeBase]) -> None:
        """Raises UpstreamUnavailable: the file cannot be read, or takes no change, now."""
        with self.reading() as session:
            for table in tables.metadata.sorted_tables:
                session.execute(table.select().limit(1)).first()
        with self.writing() as session:
            connection = session.connection()
            connection.exec_driver_sql(f"PRAGMA busy_timeout={LOOK_MS}")
            try:
                # A change of the file that changes nothing.
                connection.exec_driver_sql("PRAGMA user_version=0")
            finally:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={WAIT_MS}")

    def _heed_moves(self) -> None:
        """A connection would stay with a file that was moved away, where nobody looks for what it writes."""
        with self._lock:
            found = _identity(self._path)
            if found != self._opened:
                self._engine.dispose()
                self._opened = found


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _said(error: DatabaseError | NoConnection) -> str:
    return str(error.orig) if isinstance(error, DatabaseError) else "too many are waiting for it"


def _unusable(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"TRAINER_RUNS_DIR: {path}, the record of all runs, cannot be used: {' '.join(reason.split()).rstrip('.')}. "
        "End what else has it open, or put a copy of it back; without the file the trainer begins anew and knows no run of before."
    )
