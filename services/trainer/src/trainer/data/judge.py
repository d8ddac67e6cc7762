"""Whether a data file is one that a run can learn from or be measured on: each of its rows, before anything starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from functools import partial
from pathlib import Path

import structlog
from pydantic import ValidationError

from parallelsearch.errors import InvalidInput
from parallelsearch.protocol.observations import Layout
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.rollout.types import Mode
from parallelsearch.schemas.training import RolloutSpec
from trainer.data.rows import ColdStartRow
from trainer.labels import PromptRow, Split, question_key

log = structlog.get_logger(__name__)

JUDGE_S = 10.0
"""Longer than this no file is read at submission; of a larger one the rest is not judged, which the log says."""
LOOK_EVERY = 1_000


def judge_cold_start(path: Path, field: str, limit_s: float = JUDGE_S) -> int | None:
    """How many rows it has; None if that was not counted to the end. Raises InvalidInput: as `judge_prompts`."""
    return _judge(path, field, "cold-start", ColdStartRow.model_validate_json, limit_s)


def judge_prompts(
    path: Path, field: str, wanted: Split, rollout: RolloutSpec, *, measured: Set[str] = frozenset(), limit_s: float = JUDGE_S
) -> Set[str]:
    """Reads a prompt file, whose rows must all be of the split, and ask as the run's rollouts answer.

    Gives back the keys of what an `eval` file asks; `measured` are those of the questions that no row may ask.
    Raises InvalidInput: it has no rows, or one of another kind or split, or that is measured on; names field, file and line.
    """
    asked: set[str] = set()

    def judge(line: bytes) -> None:
        row = PromptRow.model_validate_json(line)
        split, question = row.unpacked.split, row.unpacked.question
        _check_prompt(row, rollout)
        if measured and question_key(question) in measured:
            raise InvalidInput(
                "asks a question that evaluation.data asks too; "
                "`python -m trainer prepare-data prompts --exclude FILE` leaves out what FILE measures."
            )
        if wanted == "eval":
            asked.add(question_key(question))
        if split != wanted:
            raise InvalidInput(
                f"holds {split} rows, {wanted} rows are needed; "
                f"`python -m trainer prepare-data prompts --split {wanted}` makes such a file."
            )

    _judge(path, field, "prompts", judge, limit_s)
    return asked


def _check_prompt(row: PromptRow, rollout: RolloutSpec) -> None:
    """A prompt may be of one's own; one of ours must be of the run's mode and layout, or what it learns is never asked."""
    final_newline = rollout.layout is Layout.PAPER
    ours = partial(build_prompt, row.unpacked.question)
    if row.prompt == ours(rollout.mode, final_newline=final_newline):
        return
    if any(row.prompt == ours(mode, final_newline=newline) for mode in Mode for newline in (False, True)):
        made = f"--mode {rollout.mode} --layout {rollout.layout}"
        raise InvalidInput(
            f"asks in another mode or layout than the run's, {rollout.mode} and {rollout.layout}; "
            f"`python -m trainer prepare-data prompts {made}` makes a file that asks so, or change the run's `rollout`."
        )


def _judge(path: Path, field: str, command: str, judge: Callable[[bytes], object], limit_s: float) -> int | None:
    number, rows, until = 0, 0, time.monotonic() + limit_s
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number % LOOK_EVERY == 0 and time.monotonic() > until:
                log.warning("data_judged_in_part", file=str(path), field=field, lines=number, limit_s=limit_s)
                return None
            if not line.strip():
                continue
            rows += 1
            try:
                judge(line)
            except InvalidInput as error:
                raise InvalidInput(f"{field}: {path.name}:{number} {error.detail}") from None
            except ValidationError as error:
                fault = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(map(str, fault["loc"])) or "the line"
                said = fault["msg"].removeprefix("Value error, ").replace(" at line 1 column ", " at column ")
                raise InvalidInput(
                    f"{field}: {path.name}:{number} is no row for such a run ({where}: {said}); "
                    f"`python -m trainer prepare-data {command}` makes a file that is."
                ) from None
    if not rows:
        raise InvalidInput(f"{field}: {path.name} has no rows; `python -m trainer prepare-data {command}` makes a file that has.")
    return rows
