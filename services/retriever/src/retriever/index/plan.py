"""What a build is given: its plan, and where its corpus comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from retriever.documents.changes import Change
from retriever.encoders.identity import Precision
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.manifest import DocumentRules, FileRecord, Kind, MilvusAddress


class CorpusSource(Protocol):
    """Where the passages come from: passage files, or documents."""

    @property
    def files(self) -> tuple[str, ...]:
        """What else it writes into a version."""
        ...

    def identify(self) -> tuple[FileRecord, ...]:
        """Hashes of the input; equal ones give equal passages."""
        ...

    def ingest(self, staging: Path, data: Path, encoder: ResolvedEncoder) -> None:
        """Writes the corpus into `data`; `staging` is for what is thrown away, and nothing is encoded yet."""
        ...


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What to build: passage files in order, the folder of the index, the encoder, the kind of index."""

    sources: tuple[Path, ...]
    out: Path
    encoder: ResolvedEncoder
    kind: Kind = "flat"
    lexical: bool = False
    """Whether words are indexed too (BM25), for the methods bm25 and hybrid."""
    precision: Precision = "float32"
    milvus: MilvusAddress | None = None
    """Where the vectors of kind milvus go."""
    block_passages: int = 2_048
    """Passages encoded between two checkpoints."""
    documents: DocumentRules | None = None
    """Given with `change`: the corpus is documents, and `sources` is empty."""
    change: Change | None = None
    keep: int = 2
    """Versions that stay on disk, the one that is served among them."""
    running: RetrieverAdminClient | None = None
    """Who encodes, where a retriever runs that has the encoder loaded."""
