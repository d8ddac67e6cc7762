"""Builds an index from corpus files and publishes it whole, or not at all.

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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson

from parallelsearch.errors import ConfigurationError, CorpusError, ParallelSearchError
from retriever.corpus.reading import read_corpus
from retriever.corpus.repeats import hash_of, refuse_repeated_ids
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE, CorpusStore, CorpusWriter
from retriever.encoders.identity import Encoder, Precision, Vectors
from retriever.encoders.load import load
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.blocks import Blocks, encode_blocks
from retriever.index.kinds import assemble
from retriever.index.lexical import LEXICAL_FILES, build_lexical
from retriever.index.manifest import (
    BUILDING_FOLDER,
    FORMAT,
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
)
from retriever.index.progress import Progress, say

_INGESTED = "ingested"
_RECALL_QUERIES = 256


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What to build: corpus files in order, the folder of the index, the encoder, the kind of index."""

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


def build(plan: BuildPlan) -> Manifest:
    """Builds and publishes; identical input that is published already costs a hash of the sources.

    Raises:
        CorpusError: a corpus row is broken; the message names file and line. Nothing is published.
        ConfigurationError: the folder cannot be used, or another build works in it.
    """
    started = time.monotonic()
    if plan.kind == "milvus" and plan.milvus is None:
        raise ConfigurationError("An index of kind milvus needs MILVUS_URI, or --milvus-uri: where its vectors go.")
    sources = _source_records(plan.sources)
    with _only_builder(plan.out):
        if (there := _already_published(plan, sources)) is not None:
            say(f"{plan.out} is up to date: {there.passages:,} passages, fingerprint {there.fingerprint}. Nothing to do.")
            return there
        staging = _staging(plan, sources)
        data = staging / "data"
        _ingest(plan.sources, staging, data)
        corpus = CorpusStore(data)
        with Progress(f"loading the encoder {plan.encoder.identity.name}"):
            encoder = load(plan.encoder, plan.precision)
        blocks = Blocks(staging, len(corpus), plan.block_passages)
        encode_blocks(blocks, corpus, encoder)
        effort = assemble(plan.kind, blocks, data, encoder.identity.dimension, _queries(corpus, encoder))
        if plan.lexical:
            build_lexical(corpus, data)
        _sync(*(data / name for name in _file_names(plan)))
        manifest = _describe(plan, sources, data, len(corpus), effort, time.monotonic() - started)
        corpus.close()
        if plan.kind == "milvus" and plan.milvus is not None:
            _publish_to_milvus(plan.milvus, plan.out, staging, blocks, manifest)
        else:
            _publish(plan.out, staging, data, manifest)
    say(f"published {manifest.passages:,} passages in {plan.out}, fingerprint {manifest.fingerprint}")
    return manifest


def _source_records(paths: tuple[Path, ...]) -> tuple[FileRecord, ...]:
    for path in paths:
        if not path.is_file():
            raise CorpusError(f"{path}: there is no such file. Name JSONL, gzipped JSONL or parquet files.")
    with Progress("hashing the corpus files"):
        return tuple(record(path) for path in paths)


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


def _already_published(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> Manifest | None:
    try:
        manifest = read_manifest(plan.out)
    except ConfigurationError:
        return None
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
    return manifest if same_input and same_rules and whole else None


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


def _ingest(sources: tuple[Path, ...], staging: Path, data: Path) -> None:
    if (staging / _INGESTED).exists():
        return
    hashes = staging / "ids.u64"
    try:
        with Progress("reading the corpus") as progress, CorpusWriter(data) as writer, hashes.open("wb") as ids:
            for _, passage in read_corpus(sources):
                writer.append(passage)
                ids.write(hash_of(passage.id))
                progress.advance()
        if not writer.count:
            raise CorpusError(f"{', '.join(map(str, sources))}: no passage at all. Name files with one passage a line.")
        refuse_repeated_ids(hashes, sources)
    except ParallelSearchError:
        shutil.rmtree(staging)
        raise
    hashes.unlink()
    _sync(data / PASSAGES_FILE, data / OFFSETS_FILE)
    (staging / _INGESTED).touch()


def _queries(corpus: CorpusStore, encoder: Encoder) -> Vectors:
    """Titles spread over the corpus (or first words, where there is none): what recall of an approximate kind is measured with."""
    rows = np.linspace(0, len(corpus) - 1, min(len(corpus), _RECALL_QUERIES)).astype(int).tolist()
    passages = [corpus[row] for row in rows]
    return encoder.encode_queries([passage.title or " ".join(passage.text.split()[:12]) for passage in passages])


def _file_names(plan: BuildPlan) -> tuple[str, ...]:
    return (PASSAGES_FILE, OFFSETS_FILE, file_of(plan.kind), *(LEXICAL_FILES if plan.lexical else ()))


def _describe(
    plan: BuildPlan, sources: tuple[FileRecord, ...], data: Path, passages: int, effort: Effort, seconds: float
) -> Manifest:
    encoder = plan.encoder.identity
    with Progress("hashing the index"):
        files = tuple(record(data / name) for name in _file_names(plan))
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
    )


def _publish(out: Path, staging: Path, data: Path, manifest: Manifest) -> list[str]:
    """Moves the data into place, then the manifest; gives the versions it removed.

    The version served before stays for processes that are opening it.
    """
    try:
        previous = read_manifest(out).version
    except ConfigurationError:
        previous = ""
    target = out / manifest.version
    shutil.rmtree(target, ignore_errors=True)
    data.rename(target)
    sync_folder(out)
    publish(out, manifest)
    shutil.rmtree(staging)
    stale = [folder for folder in out.iterdir() if folder.is_dir() and folder.name not in {manifest.version, previous}]
    for folder in stale:
        shutil.rmtree(folder)
    return [folder.name for folder in stale]


def _publish_to_milvus(address: MilvusAddress, out: Path, staging: Path, blocks: Blocks, manifest: Manifest) -> None:
    """The collection first, so that a manifest never names one that is not filled."""
    from retriever.index import milvus

    milvus.fill(address, manifest.version, blocks, manifest.dimension)
    for version in _publish(out, staging, staging / "data", manifest):
        milvus.drop(address, version)


def _sync(*paths: Path) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(paths[0].parent)
