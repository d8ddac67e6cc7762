"""Reads a corpus from JSONL, gzipped JSONL or parquet, row by row in constant memory, and names the broken row.

A row is `{"id", "title", "text"}` or `{"id", "contents"}` with `contents` = the title in double quotes, a newline, the
text; `url` is optional, other fields are ignored.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import orjson

from parallelsearch.errors import CorpusError
from parallelsearch.text_lines import without_mark

MAX_LINE_BYTES = 16_000_000
_GZIP_MAGIC, _PARQUET_MAGIC = b"\x1f\x8b", b"PAR1"
_COLUMNS = ("id", "title", "text", "contents", "url")


@dataclass(frozen=True, slots=True)
class CorpusPassage:
    """One passage of the corpus. `url` is empty where unknown; `metadata` says what document it is of, if of one."""

    id: str
    title: str
    text: str
    url: str = ""
    metadata: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def contents(self) -> str:
        """Title in double quotes, newline, text: what clients of `/retrieve` read and what the encoder embeds."""
        return f'"{self.title}"\n{self.text}'


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands in the caller's files; `row` counts from 1."""

    path: Path
    row: int

    def __str__(self) -> str:
        return f"{self.path}, line {self.row}"


class Broken(ValueError):
    """What is wrong with one row, in words; becomes a CorpusError that names the place."""


def read_corpus(paths: Sequence[Path]) -> Iterator[tuple[Place, CorpusPassage]]:
    """Every passage of every file, in order.

    Raises:
        CorpusError: a file is missing or unreadable, or a row is broken; the message names file and line.
    """
    for path in paths:
        place = Place(path, 0)
        try:
            for place, row in _rows(path):
                yield place, parse_row(row)
        except Broken as error:
            raise CorpusError(f"{place}: {error}. Correct or remove this line, then build again.") from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            after = f"after line {place.row}"
            raise CorpusError(f"{path}: the gzip stream is damaged or cut {after} ({error}). Fetch the file again.") from None
        except OSError as error:
            raise CorpusError(f"{path}: cannot be read ({error.strerror or error}). Check the path and its permissions.") from None


def parse_row(row: bytes | Mapping[str, Any]) -> CorpusPassage:
    """One row as a passage.

    Raises:
        Broken: it is no JSON object, lacks a field, or a field has the wrong type or is blank.
    """
    if isinstance(row, bytes):
        try:
            row = orjson.loads(row)
        except orjson.JSONDecodeError as error:
            raise Broken(f"is not valid JSON ({error})") from None
        if not isinstance(row, dict):
            raise Broken("must be a JSON object")
    title, text = _title_and_text(row)
    if not text.strip():
        raise Broken("the passage has no text")
    return CorpusPassage(_identifier(row), title, text, _string(row, "url") if row.get("url") is not None else "")


def _identifier(row: Mapping[str, Any]) -> str:
    value = row.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    identifier = _string(row, "id")
    if not identifier.strip():
        raise Broken("`id` is blank")
    return identifier


def _title_and_text(row: Mapping[str, Any]) -> tuple[str, str]:
    if row.get("text") is not None:
        return _string(row, "title"), _string(row, "text")
    if row.get("contents") is None:
        raise Broken("needs `title` and `text`, or `contents`")
    first, newline, rest = _string(row, "contents").partition("\n")
    if not newline:
        return "", first
    quoted = len(first) >= 2 and first[0] == first[-1] == '"'
    return (first[1:-1] if quoted else first), rest


def _string(row: Mapping[str, Any], field: str) -> str:
    value = row.get(field)
    if value is None:
        raise Broken(f"`{field}` is missing")
    if not isinstance(value, str):
        raise Broken(f"`{field}` must be a string, not {type(value).__name__}")
    if "\x00" in value:
        raise Broken(f"`{field}` contains a NUL character")
    return value


def _rows(path: Path) -> Iterator[tuple[Place, bytes | Mapping[str, Any]]]:
    with path.open("rb") as stream:
        magic = stream.read(4)
        stream.seek(0)
        if magic == _PARQUET_MAGIC:
            yield from _parquet_rows(path)
        elif magic.startswith(_GZIP_MAGIC):
            with gzip.open(stream) as unpacked:
                yield from _lines(path, cast(IO[bytes], unpacked))
        else:
            yield from _lines(path, stream)


def _lines(path: Path, stream: IO[bytes]) -> Iterator[tuple[Place, bytes]]:
    lines = iter(partial(stream.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(without_mark(lines), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise CorpusError(f"{Place(path, number)}: longer than {MAX_LINE_BYTES} bytes. Split this passage, then build again.")
        if line.strip():
            yield Place(path, number), line


def _parquet_rows(path: Path) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=columns):
                for row in _decoded(batch, path, number):
                    number += 1
                    yield Place(path, number), row
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        what = " ".join(str(error).split())  # Arrow calls bytes that it cannot unpack an OSError, over several lines
        raise CorpusError(f"{path}: is not a readable parquet file ({what}). Write it again.") from None


def _decoded(batch: Any, path: Path, before: int) -> list[Mapping[str, Any]]:
    """The rows of an Arrow batch that stands behind `before` other rows of its file."""
    try:
        return cast(list[Mapping[str, Any]], batch.to_pylist())
    except (ValueError, OverflowError):  # the latter for a moment in no year that Python knows
        for row in range(batch.num_rows):
            try:
                batch.slice(row, 1).to_pylist()
            except (ValueError, OverflowError) as error:
                why = f"is not UTF-8 ({error.reason})" if isinstance(error, UnicodeDecodeError) else f"is no text ({error})"
                what = f"{why}. Correct or remove this line, then build again."
                raise CorpusError(f"{Place(path, before + row + 1)}: {what}") from None
        raise
