"""Passage files as the corpus of a build: read, checked, copied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parallelsearch.errors import CorpusError
from retriever.corpus.reading import read_corpus
from retriever.corpus.repeats import hash_of, refuse_repeated_ids
from retriever.corpus.store import CorpusWriter
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.manifest import FileRecord, record
from retriever.index.progress import Progress


@dataclass(frozen=True, slots=True)
class PassageFiles:
    paths: tuple[Path, ...]
    files: tuple[str, ...] = ()

    def identify(self) -> tuple[FileRecord, ...]:
        for path in self.paths:
            if not path.is_file():
                raise CorpusError(f"{path}: there is no such file or folder. Name documents, or JSONL or parquet files.")
        with Progress("hashing the corpus files"):
            return tuple(record(path) for path in self.paths)

    def ingest(self, staging: Path, data: Path, _: ResolvedEncoder) -> None:
        hashes = staging / "ids.u64"
        with Progress("reading the corpus") as progress, CorpusWriter(data) as writer, hashes.open("wb") as ids:
            for _place, passage in read_corpus(self.paths):
                writer.append(passage)
                ids.write(hash_of(passage.id))
                progress.advance()
        if not writer.count:
            raise CorpusError(f"{', '.join(map(str, self.paths))}: no passage at all. Name files with one passage a line.")
        refuse_repeated_ids(hashes, self.paths)
        hashes.unlink()
