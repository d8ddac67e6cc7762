"""The documents of an index as the corpus of a build: what stayed is copied from the version before, the rest is read and split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import orjson

from parallelsearch.errors import CorpusError
from retriever.corpus.reading import CorpusPassage
from retriever.corpus.store import CorpusStore, CorpusWriter
from retriever.documents.changes import Add, Change, Found, Replace, Resolved, resolve_change
from retriever.documents.dates import moment_of
from retriever.documents.document import Document, Unreadable
from retriever.documents.files import Content, DocumentFile, content_of
from retriever.documents.near import Repeats, signature_of
from retriever.documents.reading_process import ReadingProcess
from retriever.documents.records import DOCUMENTS_FILE, DocumentRecord, read_records, write_records
from retriever.documents.splitting import Splitter, Splitting
from retriever.encoders.resolve import ResolvedEncoder
from retriever.encoders.tokens import load_counter
from retriever.index.manifest import DocumentRules, FileRecord
from retriever.index.progress import Progress, say

_REPORTED = 200
"""Lines about single documents before the rest is counted; `index list` has them all."""


@dataclass(slots=True)
class DocumentSet:
    """`previous` is the version that is published, where it was made by the same rules and its rows can be used again."""

    change: Change
    rules: DocumentRules
    previous: Path | None = None
    files: tuple[str, ...] = (DOCUMENTS_FILE,)
    _resolved: Resolved = field(default_factory=lambda: Resolved(()))

    def identify(self) -> tuple[FileRecord, ...]:
        """What the documents are to be, as one hash: the same documents by the same rules are the same input."""
        records = read_records(self.previous) if self.previous else []
        with Progress("comparing the documents"):
            self._resolved = resolve_change(self.change, records)
        wanted = self._resolved.wanted
        for line in _known_before(self.change, wanted):
            say(line)
        parts = [[one.source, _sha256(one), dict(one.given)] for one in wanted]
        rules = [self.rules.chunk_tokens, self.rules.overlap_tokens, self.rules.base_url]
        total = sum(one.content.bytes if isinstance(one, Found) else one.bytes for one in wanted)
        return (FileRecord(f"{len(wanted):,} documents", total, hashlib.sha256(orjson.dumps([rules, parts])).hexdigest()),)

    def ingest(self, staging: Path, data: Path, encoder: ResolvedEncoder) -> None:
        """Writes the corpus and its records into `data`.

        Raises:
            CorpusError: no document has any text.
        """
        before = CorpusStore(self.previous) if self.previous else None
        wanted = self._resolved.wanted
        with (
            Progress("reading the documents", len(wanted), what="documents") as progress,
            CorpusWriter(data) as writer,
            ReadingProcess() as reader,
        ):
            work = _Ingestion(self.rules, staging / "document", reader, writer, before, encoder)
            work.expect(wanted)
            records = []
            for one in wanted:
                records.append(work.take(one))
                progress.advance()
        if before is not None:
            before.close()
        work.copy.unlink(missing_ok=True)
        _report(records, work.read, self._resolved.other)
        if not writer.count:
            if isinstance(self.change, Replace):
                raise CorpusError("No document has any text, so there is nothing to publish. What each lacks stands above.")
            say("the index has no passage now; parallelsearch index rollback brings the version before back")
        write_records(data / DOCUMENTS_FILE, records)


def _known_before(change: Change, wanted: Sequence[Found | DocumentRecord]) -> Iterator[str]:
    """What is to be added and was tried before: it is not read again, and its fault is told again."""
    names = {path.name for path in change.paths} if isinstance(change, Add) else set()
    for one in wanted:
        if isinstance(one, DocumentRecord) and one.source in names and one.sha256:
            if one.state == "unreadable":
                yield f"cannot read {one.source}: it {one.reason}"
            elif one.state == "repeats":
                yield f"{one.source} nearly repeats {one.reason}: kept once"


def _sha256(one: Found | DocumentRecord) -> str:
    return one.content.sha256 if isinstance(one, Found) else one.sha256 or one.reason


@dataclass(slots=True)
class _Ingestion:
    """One pass over the documents. Those that are indexed already go before new ones that nearly repeat them."""

    rules: DocumentRules
    copy: Path
    reader: ReadingProcess
    writer: CorpusWriter
    before: CorpusStore | None
    encoder: ResolvedEncoder
    repeats: Repeats = field(default_factory=Repeats)
    read: set[str] = field(default_factory=set)
    _splitter: Splitter | None = None

    def expect(self, wanted: tuple[Found | DocumentRecord, ...]) -> None:
        for one in wanted:
            if isinstance(one, DocumentRecord) and one.state == "indexed":
                self.repeats.keep(one.source, one.signature)

    def take(self, one: Found | DocumentRecord) -> DocumentRecord:
        if isinstance(one, Found):
            return self._read(one.file, one.given)
        if one.state == "indexed":
            return self._copied(one)
        if one.state == "repeats":
            original = self.repeats.of(one.signature)
            if original is None:  # what it repeated has gone
                return self._read(DocumentFile.named(Path(one.root), PurePosixPath(one.source)), one.given)
            return replace(one, reason=original)
        if not one.sha256:
            self.read.add(one.source)
        return one

    def _copied(self, record: DocumentRecord) -> DocumentRecord:
        if self.before is None:
            raise AssertionError("a record stands for rows of a version before, and there is none")
        first = self.writer.count
        for row in range(record.first_row, record.first_row + record.rows):
            self.writer.append(self.before[row])
        return replace(record, first_row=first)

    def _read(self, file: DocumentFile, given: Mapping[str, str]) -> DocumentRecord:
        self.read.add(file.source)
        record = DocumentRecord(file.source, str(file.root), "unreadable", given=dict(given))
        try:
            content = content_of(file, self.copy)
            record = replace(record, sha256=content.sha256, bytes=content.bytes)
            document = self.reader.read(self.copy, file.format, file.source)
        except Unreadable as error:
            return replace(record, reason=str(error))
        return self._kept(record, document, content)

    def _kept(self, record: DocumentRecord, document: Document, content: Content) -> DocumentRecord:
        record = replace(
            record,
            title=document.title,
            url=document.url,
            date=stated.isoformat() if (stated := moment_of(document.date)) else content.modified,
            metadata={**document.metadata, **record.given},
            signature=signature_of(document),
        )
        if (original := self.repeats.of(record.signature)) is not None:
            return replace(record, state="repeats", reason=original)
        self.repeats.keep(record.source, record.signature)
        first = self.writer.count
        for passage in self._passages(record, document):
            self.writer.append(passage)
        return replace(record, state="indexed", first_row=first, rows=self.writer.count - first)

    def _passages(self, record: DocumentRecord, document: Document) -> Iterator[CorpusPassage]:
        if self._splitter is None:
            self._splitter = Splitter(load_counter(self.encoder), Splitting(self.rules.chunk_tokens, self.rules.overlap_tokens))
        about = {**record.metadata, "source": record.source, "date": record.date}
        for number, chunk in enumerate(self._splitter.split(document)):
            place = ({"section": chunk.section} if chunk.section else {}) | ({"page": chunk.page} if chunk.page else {})
            url = _url(record, self.rules.base_url, chunk.page)
            yield CorpusPassage(f"{record.source}#{number}", chunk.title, chunk.text, url, about | place)


def _url(record: DocumentRecord, base_url: str, page: int | None) -> str:
    """Where the document can be opened, at its page: its own address, else under the base, else nowhere."""
    address = record.url or (base_url.rstrip("/") + "/" + quote(record.source) if base_url else "")
    return f"{address}#page={page}" if address and page and "#" not in address else address


def _report(records: list[DocumentRecord], read: set[str], other: Mapping[str, int]) -> None:
    fresh = [record for record in records if record.source in read]
    lines = [f"cannot read {record.source}: it {record.reason}" for record in fresh if record.state == "unreadable"]
    lines += [f"{record.source} nearly repeats {record.reason}: kept once" for record in fresh if record.state == "repeats"]
    for line in lines[:_REPORTED]:
        say(line)
    if len(lines) > _REPORTED:
        say(f"and {len(lines) - _REPORTED:,} more; parallelsearch index list shows all")
    if other:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(other.items()))
        say(f"passed over files of other types: {kinds}")
    counts = {state: sum(record.state == state for record in records) for state in ("indexed", "repeats", "unreadable")}
    say(
        f"{len(records):,} documents: {counts['indexed']:,} indexed, {counts['repeats']:,} repeat another, "
        f"{counts['unreadable']:,} cannot be read; {len(records) - len(fresh):,} stayed as they were"
    )
