"""Reads question files: JSON lines (also gzipped), parquet, and files of a data set on the Hugging Face hub."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from huggingface_hub import hf_hub_download
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from parallelsearch.errors import InvalidInput
from parallelsearch.reward.kinds import kind_of
from parallelsearch.rollout.types import Kind
from parallelsearch.schemas.base import NonBlankText
from parallelsearch.text_lines import without_mark

HUB = "hf:"


class Question(BaseModel):
    """A line of a question file. `split` is `eval` for rows that are only ever measured on, None where the row names none. Fields
    not named here are ignored, and so are those that are null: in a column of parquet each row has one."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    question: NonBlankText
    golden_answers: list[NonBlankText] = Field(min_length=1)
    type: str = ""
    kind: Kind = Kind.UNLABELLED
    dataset: str = ""
    split: str | None = None
    answerable: bool = True

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, row: Any) -> Any:
        """FlashRAG's collections keep the type in `metadata`; the kind follows from the type unless it is given."""
        if not isinstance(row, dict):
            return row
        row = {name: value for name, value in row.items() if value is not None}
        given = row.get("metadata")
        metadata = given if isinstance(given, dict) else {}
        question_type = row.get("type") or metadata.get("type") or ""
        kind = row.get("kind") or kind_of(question_type if isinstance(question_type, str) else None)
        return {**row, "type": question_type, "kind": kind, "split": row.get("split") or None}

    @property
    def is_measured_on(self) -> bool:
        """Whether the row says so itself."""
        return self.split not in {None, "train"}


def read_questions(source: str) -> Iterator[Question]:
    """The questions of a file, or of `hf:OWNER/NAME/PATH/IN/IT.jsonl`, in order.

    Raises:
        InvalidInput: the file is not there, or a line is no question; names file and line.
    """
    path = _on_hub(source) if source.startswith(HUB) else Path(source)
    for number, row in _rows(path):
        try:
            question = Question.model_validate(row)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            said = fault["msg"].removeprefix("Value error, ")
            raise InvalidInput(f"{source}:{number}: {'.'.join(map(str, fault['loc']))}: {said}") from None
        yield question if question.dataset else question.model_copy(update={"dataset": path.name.split(".")[0]})


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    if path.suffix == ".parquet":
        yield from enumerate(_parquet_rows(path), start=1)
    else:
        yield from read_json_lines(path)


def _parquet_rows(path: Path) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InvalidInput(f"{path}: parquet files need pyarrow. Install it, or write the questions as JSON lines.") from None
    with _readable(path):
        try:
            for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
                yield from batch.to_pylist()
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} cannot be read: {error}") from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The lines of a file, gzipped or not, that are not blank, each with its number.

    Raises InvalidInput: the file or a line of it cannot be read.
    """
    with _readable(path), gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(without_mark(file), start=1):
            if line.strip():
                try:
                    yield number, orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise InvalidInput(f"{path}:{number}: {error}") from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A file that is not there or is not what its name says is the caller's to change."""
    try:
        yield
    except FileNotFoundError:
        raise InvalidInput(f"{path} is not there.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None


def _on_hub(source: str) -> Path:
    owner, _, rest = source.removeprefix(HUB).partition("/")
    name, _, file = rest.partition("/")
    if not file:
        raise InvalidInput(f"{source}: a data set on the hub is named hf:OWNER/NAME/PATH/IN/IT.jsonl.")
    try:
        return Path(hf_hub_download(f"{owner}/{name}", file, repo_type="dataset"))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InvalidInput(
            f"{source} cannot be had from the hub: {reason} Check owner, name and file, or name a local file."
        ) from None
