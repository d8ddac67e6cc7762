"""What a command asks of the documents of an index: to be these, to have these too, to follow a folder, or to lose some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from parallelsearch.errors import CorpusError
from retriever.documents.document import Unreadable
from retriever.documents.files import Content, DocumentFile, Listing, content_of, find_documents
from retriever.documents.patterns import matches
from retriever.documents.records import DocumentRecord


@dataclass(frozen=True, slots=True)
class Replace:
    """The documents are those under these paths."""

    paths: tuple[Path, ...]
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Add:
    """Those under these paths too, in the place of those that are called the same."""

    paths: tuple[Path, ...]
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sync:
    """Those that came from this folder are what the folder holds now; others stay, unless the folder that they came from is gone
    and this one holds one that is called the same."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Delete:
    """All but those called so; `*` stands for anything."""

    patterns: tuple[str, ...]


Change = Replace | Add | Sync | Delete


@dataclass(frozen=True, slots=True)
class Found:
    """A file to be read: one that is new, or has changed."""

    file: DocumentFile
    content: Content
    given: Mapping[str, str]

    @property
    def source(self) -> str:
        return self.file.source


Wanted = Found | DocumentRecord
"""A record stands for a document that stays as it is."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the documents are to be, in the order of their names, and how many files of which types were passed over."""

    wanted: tuple[Wanted, ...]
    other: Mapping[str, int] = field(default_factory=dict)


def resolve_change(change: Change, records: Sequence[DocumentRecord]) -> Resolved:
    """Applies a change to the documents that are there; hashes every file that it names.

    Raises:
        CorpusError: a path does not exist, two documents would be called the same, or nothing is called as is to be deleted.
    """
    if isinstance(change, Delete):
        return Resolved(_without(change, records))
    listing = find_documents((change.folder,) if isinstance(change, Sync) else change.paths)
    before = {record.source: record for record in records}
    listed = _examined(listing, before, change)
    kept = _untouched(records, change)
    named = {one.source for one in listed}
    elsewhere = (record for record in kept if record.source in named and record.has_root)
    if isinstance(change, Sync) and (both := next(elsewhere, None)):
        raise CorpusError(f"{both.source} is in the index already, from {both.root}. Delete it there first, or rename the file.")
    wanted = [*listed, *(record for record in kept if record.source not in named)]
    return Resolved(tuple(sorted(wanted, key=lambda one: one.source)), dict(listing.other))


def _untouched(records: Sequence[DocumentRecord], change: Replace | Add | Sync) -> list[DocumentRecord]:
    """The documents that a change leaves, unless it brings others that are called the same."""
    if isinstance(change, Replace):
        return []
    if isinstance(change, Add):
        return list(records)
    root = str(change.folder.resolve())
    return [record for record in records if record.root != root]


def _without(change: Delete, records: Sequence[DocumentRecord]) -> tuple[DocumentRecord, ...]:
    for pattern in change.patterns:
        if not any(matches(record.source, pattern) for record in records):
            raise CorpusError(f"No document is called {pattern}. See: parallelsearch index list --index NAME")
    return tuple(record for record in records if not any(matches(record.source, pattern) for pattern in change.patterns))


def _examined(listing: Listing, before: Mapping[str, DocumentRecord], change: Replace | Add | Sync) -> list[Wanted]:
    """Each listed file as what is to be done with it: a record where its bytes are those that were indexed."""
    wanted: list[Wanted] = [DocumentRecord(one.source, str(one.root), "unreadable", reason=one.reason) for one in listing.refused]
    for file in listing.files:
        known = before.get(file.source)
        given = (known.given if known else {}) if isinstance(change, Sync) else change.given
        try:
            content = content_of(file)
        except Unreadable as error:
            wanted.append(DocumentRecord(file.source, str(file.root), "unreadable", reason=str(error), given=given))
            continue
        same = known is not None and known.matches(content.sha256, given)
        wanted.append(replace(known, root=str(file.root)) if same and known else Found(file, content, given))
    return wanted
