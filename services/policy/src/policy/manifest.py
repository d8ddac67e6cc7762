"""The manifest of a model directory: the sha256 and size of every file in it. What it does not confirm is not served."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`source` says what the files were made from."""

    source: str
    files: tuple[FileEntry, ...]


def describe(directory: Path, source: str) -> Manifest:
    """Hashes every file of `directory`, the manifest itself left out."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != FILE_NAME)
    entries = [FileEntry(str(path.relative_to(directory)), path.stat().st_size, _sha256(path)) for path in paths]
    return Manifest(source, tuple(entries))


def write(directory: Path, manifest: Manifest) -> None:
    (directory / FILE_NAME).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


def fault(directory: Path, source: str) -> str | None:
    """None if `directory` is whole and was made from `source`; else what is wrong with it, in words."""
    path = directory / FILE_NAME
    if not path.is_file():
        return "there is none" if not directory.exists() else "it has no manifest"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        entries = [FileEntry(**entry) for entry in stored["files"]]
        stored_source = stored["source"]
    except (ValueError, KeyError, TypeError):
        return "its manifest cannot be read"
    if stored_source != source:
        return "it was made from another base or adapter"
    for entry in entries:
        file = directory / entry.name
        if not file.is_file() or file.stat().st_size != entry.bytes or _sha256(file) != entry.sha256:
            return f"{entry.name} is missing or damaged"
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
