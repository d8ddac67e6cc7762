"""Finds the documents of a folder and copies them out of it, so that what is read is one state of one file inside that folder.

Symbolic links are not followed, and every file is opened relative to a folder that is open already: nothing outside is read,
also if a folder is replaced by a link meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from parallelsearch.errors import CorpusError
from retriever.documents.document import Unreadable
from retriever.documents.formats import SUFFIXES, Format, format_of

MAX_FILE_BYTES = 100_000_000
MAX_DEPTH = 500
"""Of folders within folders: each that is open takes a file descriptor, and a call of Python's."""
UPLOADS = "uploads"
"""In the folder of an index: what was uploaded to it."""
_PIECE_BYTES = 1 << 20
_LINK = "is a symbolic link, and links are not followed"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # non-blocking: a pipe must not hold the build up


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file that is a document by its name. `root` is the folder it was found under, `path` relative to it."""

    root: Path
    path: PurePosixPath
    format: Format

    @classmethod
    def named(cls, root: Path, path: PurePosixPath) -> DocumentFile:
        """A file whose name is known to be a document's."""
        return cls(root, path, SUFFIXES[path.suffix.lower()])

    @property
    def source(self) -> str:
        """What the document is called everywhere."""
        return str(self.path)


def uploads_of(folder: Path) -> Path:
    """Where the files lie that were uploaded to the index in `folder`."""
    return folder / UPLOADS


class Refused(NamedTuple):
    root: Path
    source: str
    reason: str


@dataclass(slots=True)
class Listing:
    """What was found: documents in order, what cannot be read and why, and how many files of which other types there are."""

    files: list[DocumentFile] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    other: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Content:
    """One state of a file."""

    sha256: str
    bytes: int
    modified: str


def find_documents(paths: Iterable[Path]) -> Listing:
    """Every document under the folders and every file that is named; hidden files and folders are passed over.

    Raises:
        CorpusError: a path does not exist, is a link or no document, or two documents would be called the same.
    """
    listing = Listing()
    for path in paths:
        if path.is_dir():
            _walk(path.resolve(), listing)
        elif path.is_symlink():
            raise CorpusError(f"{path} {_LINK}. Name the file itself.")
        elif not path.exists():
            raise CorpusError(f"{path}: there is no such file or folder.")
        elif format_of(path.name) is None:
            raise CorpusError(f"{path} is not read. Documents end in {' '.join(SUFFIXES)}.")
        else:
            _add(path.resolve().parent, PurePosixPath(path.name), listing)
    _refuse_repeated(listing)
    return listing


def _walk(root: Path, listing: Listing) -> None:
    def failed(error: OSError) -> None:
        name = _readable(os.path.relpath(error.filename or root, root))
        listing.refused.append(Refused(root, name, f"cannot be listed ({error.strerror})"))

    for folder, folders, names, descriptor in os.fwalk(root, follow_symlinks=False, onerror=failed):
        inside = PurePosixPath(os.path.relpath(folder, root))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(inside.parts) >= MAX_DEPTH:
            too_deep, folders[:] = folders[:], []
            reason = f"lies below {MAX_DEPTH} folders"
            listing.refused += [Refused(root, _readable(str(inside / name)), reason) for name in too_deep]
        for name in [*folders, *sorted(names)]:
            if name.startswith(".") or (name in folders and not _is_link(name, descriptor)):
                continue
            if _is_link(name, descriptor):
                listing.refused.append(Refused(root, _readable(str(inside / name)), _LINK))
            else:
                _add(root, inside / name, listing)


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _add(root: Path, path: PurePosixPath, listing: Listing) -> None:
    expected = format_of(path.name)
    if expected is None:
        listing.other[PurePosixPath(path.name).suffix.lower() or "without an ending"] += 1
    elif _readable(str(path)) != str(path):
        listing.refused.append(Refused(root, _readable(str(path)), "has characters in its name that cannot be shown; rename it"))
    else:
        listing.files.append(DocumentFile(root, path, expected))


def _readable(name: str) -> str:
    """A name without what cannot be written or shown."""
    text = name.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else "?" for character in text)


def _refuse_repeated(listing: Listing) -> None:
    first: dict[str, DocumentFile] = {}
    for file in listing.files:
        if file.source in first:
            raise CorpusError(
                f"{file.root / file.path} and {first[file.source].root / file.path} would both be called {file.source}. "
                "Build from the folder that holds both."
            )
        first[file.source] = file


def content_of(file: DocumentFile, copy_to: Path | None = None) -> Content:
    """The file's state, and a copy of it where one is wanted.

    Raises:
        Unreadable: it is gone, no regular file, too large, not permitted, or it changes while it is read.
        OSError: the copy cannot be written, which says nothing of the file.
    """
    for attempt in (1, 2):
        try:
            with _opened(file) as descriptor:
                return _copied(descriptor, copy_to)
        except _Changed:
            if attempt == 2:
                raise Unreadable("changes while it is read; try again when it is still") from None
        except _NotKept as error:
            raise error.cause from None
        except OSError as error:
            raise Unreadable(f"cannot be read ({error.strerror or error})") from None
    raise AssertionError("unreachable: the second attempt returns or raises")


class _Changed(Exception):
    """The file was written to meanwhile."""


class _NotKept(Exception):
    """The copy cannot be written."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def _opened(file: DocumentFile) -> Iterator[int]:
    """Opens folder by folder, none of which may be a link."""
    descriptors = [os.open(file.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for part in file.path.parts[:-1]:
            descriptors.append(os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=descriptors[-1]))
        descriptors.append(os.open(file.path.name, _OPEN, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _copied(descriptor: int, copy_to: Path | None) -> Content:
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        raise Unreadable("is no regular file")
    if before.st_size > MAX_FILE_BYTES:
        raise Unreadable(f"has {before.st_size:,} bytes, more than the {MAX_FILE_BYTES:,} that are read; split it")
    digest, size = hashlib.sha256(), 0
    with _kept(copy_to) as keep:
        while piece := os.read(descriptor, _PIECE_BYTES):
            size += len(piece)
            if size > before.st_size:
                raise _Changed
            digest.update(piece)
            keep(piece)
    after = os.fstat(descriptor)
    if (after.st_size, after.st_mtime_ns, size) != (before.st_size, before.st_mtime_ns, before.st_size):
        raise _Changed
    modified = datetime.fromtimestamp(before.st_mtime, UTC).isoformat(timespec="seconds")
    return Content(digest.hexdigest(), size, modified)


@contextmanager
def _kept(copy_to: Path | None) -> Iterator[Callable[[bytes], None]]:
    """Takes the pieces of a file; raises _NotKept where they cannot be written."""
    try:
        copy = (copy_to or Path(os.devnull)).open("wb", buffering=0)
    except OSError as error:
        raise _NotKept(error) from error

    def keep(piece: bytes) -> None:
        left = memoryview(piece)
        try:
            while left:
                left = left[copy.write(left) :]
        except OSError as error:
            raise _NotKept(error) from error

    with copy:
        yield keep
