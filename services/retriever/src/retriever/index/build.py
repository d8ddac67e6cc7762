"""Builds an index from passage files or documents and publishes it whole, or not at all.

Ingest (read, check, copy the corpus) → encode (blocks, see `blocks`) → assemble → verify → publish (see `manifest`). A build
that was killed goes on where it stood if it is started again with the same input; with other input it starts afresh.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np
import orjson

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from parallelsearch.errors import ConfigurationError, ParallelSearchError
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE, CorpusStore
from retriever.documents.changes import Change
from retriever.documents.document_set import DocumentSet
from retriever.documents.records import read_records
from retriever.encoders.identity import Encoder, Precision, Vectors
from retriever.encoders.lazy import LazyEncoder
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.blocks import Blocks, encode_blocks
from retriever.index.kinds import APPROXIMATE, assemble, write_vectors
from retriever.index.known import KnownVectors
from retriever.index.manifest import (
    BUILDING_FOLDER,
    FORMAT,
    LEXICAL_FILES,
    MANIFEST_FILE,
    VECTORS_FILE,
    DocumentRules,
    Effort,
    FileRecord,
    Kind,
    Manifest,
    MilvusAddress,
    file_of,
    fingerprint_of,
    publish,
    read_manifest,
    record,
    sync_folder,
    write_manifest,
)
from retriever.index.passage_files import PassageFiles
from retriever.index.progress import Progress, say
from retriever.index.versions import remove_versions, versions_before

_INGESTED = "ingested"
_RECALL_QUERIES = 256


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


def build(plan: BuildPlan) -> Manifest:
    """Builds and publishes; identical input that is published already costs a hash of the sources.

    Raises:
        CorpusError: a corpus row is broken; the message names file and line. Nothing is published.
        ConfigurationError: the folder cannot be used, or another build works in it.
    """
    started = time.monotonic()
    if plan.kind == "milvus" and plan.milvus is None:
        raise ConfigurationError("An index of kind milvus needs MILVUS_URI, or --milvus-uri: where its vectors go.")
    with _only_builder(plan.out):
        published = _published(plan.out)
        source = _source(plan, published)
        records = source.identify()
        if published is not None and _is_current(plan, records, published):
            say(f"{plan.out} is up to date: {published.passages:,} passages, fingerprint {published.fingerprint}. Nothing to do.")
            return published
        staging = _staging(plan, records)
        data = staging / "data"
        _ingest(source, staging, data, plan.encoder)
        encoder = LazyEncoder(plan.encoder, plan.precision, plan.running)
        corpus = CorpusStore(data)
        blocks = Blocks(staging, len(corpus), plan.block_passages)
        known = _known(plan, published)
        encode_blocks(blocks, corpus, encoder, known)
        if known is not None:
            known.close()
        queries = _queries(corpus, encoder) if plan.kind in APPROXIMATE and len(corpus) else None
        effort = assemble(plan.kind, blocks, data, encoder.identity.dimension, queries)
        if plan.documents and plan.kind != "flat":
            write_vectors(blocks, data / VECTORS_FILE, encoder.identity.dimension)
        if plan.lexical and len(corpus):
            from retriever.index.lexical import build_lexical  # takes half a second to import, and few need it

            build_lexical(corpus, data)
        names = _file_names(plan, source, len(corpus))
        _sync(*(data / name for name in names))
        manifest = _describe(plan, records, data, names, len(corpus), effort, time.monotonic() - started)
        manifest = replace(manifest, previous=_before(published, manifest))
        corpus.close()
        if plan.kind == "milvus" and plan.milvus is not None:
            _publish_to_milvus(plan.milvus, plan, staging, blocks, manifest)
        else:
            _publish(plan, staging, data, manifest)
    say(f"published {manifest.passages:,} passages in {plan.out}, fingerprint {manifest.fingerprint}")
    return manifest


def _published(out: Path) -> Manifest | None:
    try:
        return read_manifest(out)
    except ConfigurationError:
        return None


def _source(plan: BuildPlan, published: Manifest | None) -> CorpusSource:
    if plan.documents is None or plan.change is None:
        return PassageFiles(plan.sources)
    usable = published is not None and published.documents is not None and _same_chunks(plan, published)
    return DocumentSet(plan.change, plan.documents, plan.out / published.version if published and usable else None)


def _same_chunks(plan: BuildPlan, published: Manifest) -> bool:
    """Whether its passages are what this plan would make of the same documents."""
    if published.documents is None or plan.documents is None:
        return False
    return published.documents.same_passages_as(plan.documents) and published.encoder.same_vectors_as(plan.encoder.identity)


def _known(plan: BuildPlan, published: Manifest | None) -> KnownVectors | None:
    """The vectors of the version before, where it keeps them and they are of this encoder."""
    if published is None or plan.documents is None or not published.encoder.same_vectors_as(plan.encoder.identity):
        return None
    data = plan.out / published.version
    return KnownVectors(data) if (data / VECTORS_FILE).exists() else None


def _before(published: Manifest | None, manifest: Manifest) -> str:
    """The version that was served before this one."""
    if published is None:
        return ""
    return published.previous if published.version == manifest.version else published.version


@contextmanager
def _only_builder(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise ConfigurationError(f"{out} cannot be written ({error.strerror}). Choose another folder with --out.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"Another build works in {out}. Wait until it ends, or choose another folder.") from None
        yield


def _is_current(plan: BuildPlan, sources: tuple[FileRecord, ...], manifest: Manifest) -> bool:
    same_input = [file.sha256 for file in manifest.sources] == [file.sha256 for file in sources]
    same_rules = manifest.encoder.same_vectors_as(plan.encoder.identity) and (manifest.kind, manifest.lexical) == (
        plan.kind,
        plan.lexical,
    )
    paths = [(plan.out / manifest.version / file.name, file.bytes) for file in manifest.files]
    whole = all(path.exists() and path.stat().st_size == size for path, size in paths)
    if plan.milvus is not None and manifest.kind == "milvus":
        from retriever.index import milvus  # takes seconds to import, and only this kind needs it

        whole = whole and milvus.holds(plan.milvus, manifest.version)
    return same_input and same_rules and whole


def _staging(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> Path:
    """The work folder: the old one if it was begun for the same build, else an empty one."""
    staging, begun = plan.out / BUILDING_FOLDER, plan.out / BUILDING_FOLDER / "plan.json"
    encoder = plan.encoder.identity
    wanted = orjson.dumps(
        {
            "sources": [file.sha256 for file in sources],
            "encoder": [encoder.digest, asdict(encoder.rules)],
            "block": plan.block_passages,
            "precision": plan.precision,
        }
    )
    if begun.exists() and begun.read_bytes() == wanted:
        say("going on with a build that did not end")
        return staging
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "data").mkdir(parents=True)
    begun.write_bytes(wanted)
    return staging


def _ingest(source: CorpusSource, staging: Path, data: Path, encoder: ResolvedEncoder) -> None:
    if (staging / _INGESTED).exists():
        return
    try:
        source.ingest(staging, data, encoder)
    except ParallelSearchError:
        shutil.rmtree(staging)
        raise
    _sync(*(data / name for name in (PASSAGES_FILE, OFFSETS_FILE, *source.files)))
    (staging / _INGESTED).touch()


def _queries(corpus: CorpusStore, encoder: Encoder) -> Vectors:
    """Titles spread over the corpus (or first words, where there is none): what recall of an approximate kind is measured with."""
    rows = np.linspace(0, len(corpus) - 1, min(len(corpus), _RECALL_QUERIES)).astype(int).tolist()
    passages = [corpus[row] for row in rows]
    return encoder.encode_queries([passage.title or " ".join(passage.text.split()[:12]) for passage in passages])


def _file_names(plan: BuildPlan, source: CorpusSource, passages: int) -> tuple[str, ...]:
    """A set of documents keeps its vectors whatever the kind: for the next version, and for exact search among a few."""
    kept = tuple(dict.fromkeys((file_of(plan.kind), *((VECTORS_FILE,) if plan.documents else ()))))
    return (PASSAGES_FILE, OFFSETS_FILE, *source.files, *kept, *(LEXICAL_FILES if plan.lexical and passages else ()))


def _describe(
    plan: BuildPlan,
    sources: tuple[FileRecord, ...],
    data: Path,
    names: tuple[str, ...],
    passages: int,
    effort: Effort,
    seconds: float,
) -> Manifest:
    encoder = plan.encoder.identity
    with Progress("hashing the index"):
        files = tuple(record(data / name) for name in names)
    fingerprint = fingerprint_of(encoder, plan.kind, effort, files)
    return Manifest(
        format=FORMAT,
        fingerprint=fingerprint,
        version=fingerprint[:16],
        encoder=encoder,
        kind=plan.kind,
        metric="inner_product",
        dimension=encoder.dimension,
        passages=passages,
        effort=effort,
        lexical=plan.lexical,
        files=files,
        sources=sources,
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        build_seconds=round(seconds, 1),
        documents=replace(plan.documents, documents=len(read_records(data)), keep=plan.keep) if plan.documents else None,
    )


def _publish(plan: BuildPlan, staging: Path, data: Path, manifest: Manifest) -> list[str]:
    """Moves the data into place, then the manifest; gives the versions it removed.

    The version served before stays for processes that are opening it, and to go back to.
    """
    out, target = plan.out, plan.out / manifest.version
    shutil.rmtree(target, ignore_errors=True)
    write_manifest(data / MANIFEST_FILE, manifest)
    data.rename(target)
    sync_folder(out)
    publish(out, manifest)
    shutil.rmtree(staging)
    return remove_versions(out, versions_before(out, manifest)[: max(1, plan.keep)])


def _publish_to_milvus(address: MilvusAddress, plan: BuildPlan, staging: Path, blocks: Blocks, manifest: Manifest) -> None:
    """The collection first, so that a manifest never names one that is not filled."""
    from retriever.index import milvus

    milvus.fill(address, manifest.version, blocks, manifest.dimension)
    for version in _publish(plan, staging, staging / "data", manifest):
        milvus.drop(address, version)


def _sync(*paths: Path) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
