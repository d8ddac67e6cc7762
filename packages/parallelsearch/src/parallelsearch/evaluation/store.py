"""The folder of a run, from which it resumes and of which its report is made.

    run.json                    what was asked of what (`manifest`)
    questions.jsonl             the questions with their labels, as asked
    trajectories/CELL.jsonl     one scored trajectory a line, as `parallelsearch reward` reads them; ids are the questions'
    report.{json,md,html}
    .lock                       held by the process that writes the run

A trajectory is on disk (fsync) before it counts as done. A line that is half written (by a kill, or just now) counts for
nothing, and the next start cuts it off.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
from pydantic import ValidationError

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.plan import Cell, Job
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.wire import question_from_wire, question_to_wire
from parallelsearch.rollout.types import StopReason
from parallelsearch.schemas.answers import ScoredTrajectoryModel, TrajectoryModel

OUTSIDE_FAILURES = frozenset({StopReason.POLICY_FAILED, StopReason.RETRIEVAL_FAILED, StopReason.CANCELLED})
"""What a rollout can end by that says nothing of the policy: such a question is asked again when the run is resumed."""

WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""What file systems that know no locks (some over a network) say of one: there it is the user who sees to it."""


class RunFolder:
    """One run's files. Appending is the caller's to serialise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / "run.json"
        self._questions = path / "questions.jsonl"
        self._trajectories = path / "trajectories"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps every other process from writing the run.

        Raises:
            InvalidInput: another one is writing it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput(
                    f"{self.path}: the run is being written to by another eval. Wait until it ends, or name another folder."
                ) from None
            except OSError as error:
                if error.errno not in WITHOUT_LOCKS:
                    raise
            yield

    def create(self, questions: Iterator[Question]) -> None:
        self._trajectories.mkdir(parents=True, exist_ok=True)
        lines = b"".join(question_to_wire(question).model_dump_json().encode() + b"\n" for question in questions)
        write_durably(self._questions, lines)

    def questions(self) -> dict[tuple[str, str], Question]:
        """The questions by set and id, in the order of the run.

        Raises:
            InvalidInput: the folder holds no run.
        """
        try:
            lines = self._questions.read_bytes().splitlines()
        except OSError as error:
            raise InvalidInput(f"{self.path} holds no evaluation run: {error.strerror} ({self._questions.name}).") from error
        found = (question_from_wire(line) for line in lines if line)
        return {question.key: question for question in found}

    def file(self, cell: Cell) -> Path:
        return self._trajectories / f"{cell.slug}.jsonl"

    def append(self, job: Job, trajectory: TrajectoryModel) -> None:
        """Writes a finished trajectory under its question's id, to the disk itself: all of the line or nothing.

        Raises:
            OSError: it cannot be written; names the file.
        """
        fields = {**trajectory.model_dump(mode="json"), "id": job.question.id, "kind": job.question.kind.value}
        line = orjson.dumps({**fields, "golden_answers": job.question.golden_answers}, default=list) + b"\n"
        path = self.file(job.cell)
        with path.open("ab", buffering=0) as file:
            begin = file.seek(0, os.SEEK_END)
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError as error:
                file.truncate(begin)
                raise OSError(error.errno, error.strerror, str(path)) from error

    def mend(self, cell: Cell) -> None:
        """Cuts off what stands after the last full line."""
        path = self.file(cell)
        if not path.exists():
            return
        with path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            position = size
            while position > 0:
                step = min(65_536, position)
                file.seek(position - step)
                end = file.read(step).rfind(b"\n")
                if end >= 0:
                    position = position - step + end + 1
                    break
                position -= step
            if position < size:
                file.truncate(position)

    def finished(self, cell: Cell) -> set[str]:
        """The ids of the questions that need not be asked again."""
        done: set[str] = set()
        for trajectory in self.trajectories(cell):
            (done.discard if trajectory.stop_reason in OUTSIDE_FAILURES else done.add)(trajectory.id)
        return done

    def trajectories(self, cell: Cell) -> Iterator[ScoredTrajectoryModel]:
        """As they were written, one at a time; of two with one id the later holds.

        Raises:
            InvalidInput: a line is no scored trajectory; names file and line.
        """
        path = self.file(cell)
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, line in enumerate(_whole(file), start=1):
                yield _trajectory(line, f"{path}:{number}")

    def trajectories_at(self, cell: Cell, offsets: Iterable[int]) -> Iterator[ScoredTrajectoryModel]:
        """Those that begin at the offsets."""
        path = self.file(cell)
        if path.exists():
            with path.open("rb") as file:
                for offset in offsets:
                    file.seek(offset)
                    yield _trajectory(file.readline(), f"{path} at byte {offset}")

    def line_offsets(self, cell: Cell) -> dict[str, int]:
        """Where the trajectory that holds begins in the cell's file, for each question."""
        offsets: dict[str, int] = {}
        path = self.file(cell)
        if path.exists():
            with path.open("rb") as file:
                offset = 0
                for line in _whole(file):
                    offsets[orjson.loads(line)["id"]] = offset
                    offset += len(line)
        return offsets


def _whole(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Those that were written to their end."""
    return (line for line in lines if line.endswith(b"\n"))


def _trajectory(line: bytes, place: str) -> ScoredTrajectoryModel:
    try:
        return ScoredTrajectoryModel.model_validate_json(line)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise InvalidInput(f"{place}: {reason}. Remove the line; its question is asked again.") from None


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file so that after a crash either the old or the new content is there."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
