"""Training runs as they are recorded: what was asked for and where it stands. Every change of state goes through `Store.move`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import structlog
from pydantic import ValidationError
from sqlalchemy import JSON, Index, String, func, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from parallelsearch.errors import Gone, InvalidInput
from parallelsearch.schemas.training import SPEC, LauncherName, ReinforcementSpec, RunState, SupervisedSpec, TrainingRun
from trainer.database import Database

log = structlog.get_logger(__name__)

RECORD = "runs.sqlite"
"""The file's name in the folder of the runs."""
TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.FAILED, RunState.CANCELLED}),
    RunState.RUNNING: frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A training run; `handle` is how its launcher finds it again, empty until it was started."""

    id: str
    state: RunState
    spec: ReinforcementSpec | SupervisedSpec
    created_at: str
    started_at: str = ""
    finished_at: str = ""
    detail: str = ""
    handle: str = ""
    idempotency_key: str | None = None
    last_log_lines: tuple[str, ...] = ()
    flags: tuple[str, ...] = field(default=())

    @property
    def launcher(self) -> LauncherName:
        return self.spec.launcher

    def to_wire(self) -> TrainingRun:
        return TrainingRun(
            id=self.id,
            state=self.state,
            spec=self.spec,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            detail=self.detail,
            last_log_lines=list(self.last_log_lines),
            flags=list(self.flags),
        )


@dataclass(frozen=True, slots=True)
class Unread:
    """What can be read of a run of another version, whose specification cannot: enough to end it, where its launcher is known."""

    id: str
    state: RunState
    spec: str
    created_at: str
    started_at: str
    finished_at: str
    detail: str
    last_log_lines: tuple[str, ...]
    flags: tuple[str, ...]
    handle: str

    @property
    def launcher(self) -> LauncherName:
        """Raises Gone: it cannot be read either."""
        with suppress(ValueError, KeyError, TypeError):
            return LauncherName(orjson.loads(self.spec)["launcher"])
        raise Gone(f"Training run {self.id} was taken by another version of the trainer. Cancel it with that version.")

    def to_json(self) -> bytes:
        """In the form of a run, with the specification as it is recorded; null where that is no JSON."""
        told = asdict(self)
        del told["handle"]
        try:
            spec = orjson.loads(self.spec)
        except orjson.JSONDecodeError:
            spec = None
        return orjson.dumps(told | {"spec": spec})


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the runs, and the id after which the next page begins: None where there is none."""

    runs: tuple[Run, ...]
    next: str | None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class _Base(DeclarativeBase):
    pass


class _Row(_Base):
    __tablename__ = "training_runs"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    state: Mapped[str]
    spec: Mapped[str]
    created_at: Mapped[str] = mapped_column(index=True)
    started_at: Mapped[str] = mapped_column(default="")
    finished_at: Mapped[str] = mapped_column(default="")
    detail: Mapped[str] = mapped_column(default="")
    handle: Mapped[str] = mapped_column(default="")
    idempotency_key: Mapped[str | None] = mapped_column(unique=True, default=None)
    last_log_lines: Mapped[list[str]] = mapped_column(JSON, default=list)
    flags: Mapped[list[str]] = mapped_column(JSON, default=list)

    __table_args__ = (Index("ix_training_runs_by_state", "state", "created_at", "id"),)


def _run(row: _Row) -> Run:
    try:
        spec = SPEC.validate_json(row.spec)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise Gone(f"Training run {row.id} was taken by another version of the trainer: {where}: {fault['msg']}.") from None
    return Run(spec=spec, idempotency_key=row.idempotency_key, **_recorded(row))


def _unread(row: _Row) -> Unread:
    return Unread(spec=row.spec, **_recorded(row))


def _recorded(row: _Row) -> dict[str, Any]:
    """What can be read of a run whatever version took it."""
    return {
        "id": row.id,
        "state": RunState(row.state),
        "created_at": row.created_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "detail": row.detail,
        "handle": row.handle,
        "last_log_lines": tuple(row.last_log_lines),
        "flags": tuple(row.flags),
    }


class Store:
    """Thread-safe; a change is on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError: the file is damaged, held by another process, or of another version."""
        self._database = Database(path)
        self._unreadable: set[str] = set()
        self._database.prepare(_Base)

    def close(self) -> None:
        self._database.close()

    def look(self) -> None:
        """Raises UpstreamUnavailable: the record cannot be read, or takes no change, now."""
        self._database.look(_Base)

    def add(self, run: Run) -> Run:
        """Stores a new run; if its idempotency key is taken, gives back the run that has it."""
        row = _Row(
            id=run.id,
            state=run.state,
            spec=run.spec.model_dump_json(),
            created_at=run.created_at,
            idempotency_key=run.idempotency_key,
            last_log_lines=[],
            flags=[],
        )
        try:
            with self._database.writing() as session:
                session.add(row)
        except IntegrityError:
            if run.idempotency_key is not None and (stored := self.with_key(run.idempotency_key)):
                return stored
            raise
        return run

    def get(self, run_id: str) -> Run | None:
        """Raises Gone: it is of another version, whose specifications are not read any more."""
        with self._database.reading() as session:
            row = session.get(_Row, run_id)
            return _run(row) if row else None

    def find(self, run_id: str) -> Run | Unread | None:
        """As `get`; of one of another version what can be read."""
        with self._database.reading() as session:
            if (row := session.get(_Row, run_id)) is None:
                return None
            try:
                return _run(row)
            except Gone:
                return _unread(row)

    def with_key(self, idempotency_key: str) -> Run | None:
        with self._database.reading() as session:
            row = session.scalars(select(_Row).where(_Row.idempotency_key == idempotency_key)).one_or_none()
            return _run(row) if row else None

    def list(self, *states: RunState) -> list[Run]:
        """Those in `states`, in the order of their submission. One that cannot be read is left out, and said once."""
        query = select(_Row).where(_Row.state.in_(states)).order_by(_Row.created_at, _Row.id)
        with self._database.reading() as session:
            return list(self._readable(session.scalars(query)))

    def page(self, states: Collection[RunState] = (), *, limit: int, after: str | None = None) -> Page:
        """The newest `limit` runs, of all or of those in `states`; with `after`, those that come after the run of this id.

        Raises:
            InvalidInput: there is no such run.
        """
        query = select(_Row).order_by(_Row.created_at.desc(), _Row.id.desc()).limit(limit + 1)
        if states:
            query = query.where(_Row.state.in_(states))
        with self._database.reading() as session:
            if after is not None:
                last = session.execute(select(_Row.created_at, _Row.id).where(_Row.id == after)).one_or_none()
                if last is None:
                    raise InvalidInput("cursor: there is no such place in the list; take `next` of an answer.")
                query = query.where(tuple_(_Row.created_at, _Row.id) < tuple(last))
            rows = session.scalars(query).all()
            return Page(tuple(self._readable(rows[:limit])), rows[limit - 1].id if len(rows) > limit else None)

    def counts(self) -> Mapping[str, int]:
        """How many runs there are of each state that has some."""
        with self._database.reading() as session:
            return dict(session.execute(select(_Row.state, func.count()).group_by(_Row.state)).all())

    def _readable(self, rows: Iterable[_Row]) -> Iterator[Run]:
        for row in rows:
            try:
                yield _run(row)
            except Gone as error:
                if row.id not in self._unreadable:
                    self._unreadable.add(row.id)
                    log.error("run_unreadable", run=row.id, detail=error.detail)

    def move(self, run: Run | Unread, to: RunState, *, detail: str = "", last_log_lines: tuple[str, ...] = ()) -> bool:
        """Takes a run to another state, unless someone else moved it meanwhile (then False)."""
        if to not in TRANSITIONS[run.state]:
            return False
        values: dict[str, object] = {"state": to, "detail": detail, "last_log_lines": list(last_log_lines)}
        values["started_at" if to is RunState.RUNNING else "finished_at"] = now()
        statement = update(_Row).where(_Row.id == run.id, _Row.state == run.state).values(**values)
        return self._changed(statement)

    def note(self, run: Run, detail: str) -> None:
        """Says of a run that goes on what it waits for, or that it waits for nothing."""
        if detail != run.detail:
            self._changed(update(_Row).where(_Row.id == run.id, _Row.state == run.state).values(detail=detail))

    def set_handle(self, run: Run, handle: str) -> None:
        self._changed(update(_Row).where(_Row.id == run.id).values(handle=handle))

    def set_flags(self, run: Run, flags: tuple[str, ...]) -> None:
        self._changed(update(_Row).where(_Row.id == run.id).values(flags=list(flags)))

    def _changed(self, statement: object) -> bool:
        with self._database.writing() as session:
            result = session.execute(statement)  # type: ignore[call-overload]
            return bool(result.rowcount)
