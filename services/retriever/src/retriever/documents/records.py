"""What an index remembers of each document, in a file of its version: where its passages lie, or why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import orjson

DOCUMENTS_FILE = "documents.jsonl"
State = Literal["indexed", "repeats", "unreadable"]


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """`source` names the document; `root` is the folder it came from. `reason` says why it is unreadable, or what it repeats."""

    source: str
    root: str
    state: State
    sha256: str = ""
    bytes: int = 0
    reason: str = ""
    first_row: int = 0
    rows: int = 0
    title: str = ""
    url: str = ""
    date: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    """The part of the metadata that the command was given."""
    signature: str = ""

    @property
    def has_root(self) -> bool:
        """Whether the folder that it came from is there still, and was not moved with all that is in it."""
        return Path(self.root).is_dir()

    def matches(self, sha256: str, given: Mapping[str, str]) -> bool:
        """Whether a file of these bytes would become this record again."""
        return bool(sha256) and self.sha256 == sha256 and dict(self.given) == dict(given)


def write_records(path: Path, records: Iterable[DocumentRecord]) -> None:
    with path.open("wb") as file:
        for record in records:
            file.write(orjson.dumps(asdict(record), option=orjson.OPT_APPEND_NEWLINE))


def read_records(data: Path) -> list[DocumentRecord]:
    """The records of a version, in the order of their rows; none for an index of passage files."""
    path = data / DOCUMENTS_FILE
    if not path.exists():
        return []
    with path.open("rb") as file:
        return [DocumentRecord(**orjson.loads(line)) for line in file]
