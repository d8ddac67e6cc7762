"""What a data file was made of: counts and hashes, written beside it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from parallelsearch.errors import InvalidInput
from parallelsearch.schemas.base import WireModel


class SourceFile(WireModel):
    name: str
    sha256: str


class Manifest(WireModel):
    """`counts` are rows by kind (or by what else they are told apart by), `left_out` rows by the reason they are not there."""

    file: str
    sha256: str
    rows: int
    counts: dict[str, int]
    left_out: dict[str, int]
    sources: list[SourceFile]
    excluded: list[SourceFile] = []
    settings: dict[str, str]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Writes the file whole or not at all, and takes the manifest of the one before away; gives back how many lines it has.

    Raises:
        InvalidInput: there is no line, or the file cannot be written there.
    """
    if path.suffix != ".jsonl":
        raise InvalidInput(f"--out: {path} must end in .jsonl, or no run can name it as its data.")
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        count = _write(part, lines)
        if count:
            _manifest(path).unlink(missing_ok=True)
            part.replace(path)
    except OSError as error:
        raise InvalidInput(f"--out: {path} cannot be written: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    if not count:
        raise nothing_left(Counter())
    return count


def keep_sources(target: Path, sources: Iterable[str]) -> None:
    """Raises InvalidInput: the file to be written is one of those that are read."""
    for source in map(Path, sources):
        if source.exists() and target.exists() and source.samefile(target):
            raise InvalidInput(f"--out: {target} is one of the files that are read; name another, or it would be lost.")


def nothing_left(left_out: Counter[str]) -> InvalidInput:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common() if count)
    return InvalidInput(f"No row is left to write: {reasons or 'the files hold none of what is asked for'}.")


def _manifest(path: Path) -> Path:
    return path.with_suffix(".manifest.json")


def _write(path: Path, lines: Iterable[bytes]) -> int:
    count = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(line + b"\n")
            count += 1
    return count


def write_manifest(
    path: Path,
    rows: int,
    counts: Counter[str],
    left_out: Counter[str],
    sources: Iterable[str],
    settings: dict[str, str],
    excluded: Iterable[str] = (),
) -> Manifest:
    """`train.jsonl` gets `train.manifest.json`. A source that is no file here (on a hub) is named without a hash.

    Raises:
        InvalidInput: it cannot be written.
    """
    manifest = Manifest(
        file=path.name,
        sha256=sha256(path),
        rows=rows,
        counts=dict(sorted(counts.items())),
        left_out=dict(sorted(left_out.items())),
        sources=[_source(source) for source in sources],
        excluded=[_source(source) for source in excluded],
        settings=settings,
    )
    try:
        _manifest(path).write_text(manifest.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise InvalidInput(f"--out: {_manifest(path)} cannot be written: {error.strerror}; {path} is, and whole.") from None
    return manifest


def _source(source: str) -> SourceFile:
    path = Path(source)
    return SourceFile(name=path.name if path.is_file() else source, sha256=sha256(path) if path.is_file() else "")
