"""Builds an index from passage files or documents and publishes it whole, or not at all.

Ingest (read, check, copy the corpus) → encode (`blocks`) → assemble (`kinds`, `training`, `lexical`) → publish (`publication`). A
build that was killed goes on where it stood (`staging`) if it is started again with the same input; with other input it starts
afresh. What it holds in memory beside encoder and trained index is a part of a block, and of words all there are (`lexical`).
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from parallelsearch.errors import ConfigurationError, IndexMismatch
from retriever.corpus.store import CorpusStore
from retriever.documents.changes import Replace
from retriever.documents.document_set import DocumentSet
from retriever.encoders.identity import Encoder, Vectors
from retriever.encoders.lazy import LazyEncoder
from retriever.index.blocks import Blocks, encode_blocks
from retriever.index.kinds import APPROXIMATE, assemble, write_vectors
from retriever.index.known import KnownVectors
from retriever.index.manifest import VECTORS_FILE, FileRecord, Manifest, read_manifest
from retriever.index.passage_files import PassageFiles
from retriever.index.plan import BuildPlan, CorpusSource
from retriever.index.progress import Progress, say
from retriever.index.publication import describe, file_names, publish_version
from retriever.index.staging import (
    DATA_FOLDER,
    discard_staging,
    ingest,
    only_builder,
    staging_of,
    sync_files,
    with_settled_precision,
)
from retriever.index.verified import verify_once

_RECALL_QUERIES = 256


def build(plan: BuildPlan) -> Manifest:
    """Builds and publishes; identical input that is published already costs a hash of the sources.

    Raises:
        CorpusError: a corpus row is broken; the message names file and line. Nothing is published.
        ConfigurationError: the folder cannot be used, or another build works in it.
        IndexMismatch: the documents of a version that is damaged were to be changed.
    """
    started = time.monotonic()
    if plan.kind == "milvus" and plan.milvus is None:
        raise ConfigurationError("An index of kind milvus needs MILVUS_URI, or --milvus-uri: where its vectors go.")
    with only_builder(plan.out):
        published = _published(plan.out)
        whole = _whole(plan, published)
        source = _source(plan, whole)
        records = source.identify()
        if whole is not None and _is_current(plan, records, whole):
            say(f"{plan.out} is up to date: {whole.passages:,} passages, fingerprint {whole.fingerprint}. Nothing to do.")
            discard_staging(plan, records)
            return whole
        plan = with_settled_precision(plan, records, whole.precision if whole is not None and _keeps_vectors(plan, whole) else "")
        staging = staging_of(plan, records)
        data = staging / DATA_FOLDER
        ingest(source, staging, data, plan.encoder)
        encoder = LazyEncoder(plan.encoder, plan.precision, plan.running)
        corpus = CorpusStore(data)
        blocks = Blocks(staging, len(corpus), plan.block_passages)
        known = _known(plan, whole)
        encode_blocks(blocks, corpus, encoder, known)
        if known is not None:
            known.close()
        queries = _queries(corpus, encoder) if plan.kind in APPROXIMATE and len(corpus) else None
        encoder.unload()
        effort = assemble(plan.kind, blocks, data, encoder.identity.dimension, queries)
        if plan.documents and plan.kind != "flat":
            write_vectors(blocks, data / VECTORS_FILE, encoder.identity.dimension)
        if plan.lexical and len(corpus):
            from retriever.index.lexical import build_lexical  # takes half a second to import, and few need it

            build_lexical(corpus, data)
        names = file_names(plan, source, len(corpus))
        sync_files(*(data / name for name in names))
        manifest = describe(plan, records, data, names, len(corpus), effort, time.monotonic() - started, published)
        corpus.close()
        publish_version(plan, staging, blocks, manifest)
    say(f"published {manifest.passages:,} passages in {plan.out}, fingerprint {manifest.fingerprint}")
    return manifest


def _published(out: Path) -> Manifest | None:
    try:
        return read_manifest(out)
    except ConfigurationError:
        return None


def _whole(plan: BuildPlan, published: Manifest | None) -> Manifest | None:
    """What is published, if its files are what they were; of a damaged version nothing is used again."""
    if published is None:
        return None
    try:
        with Progress(f"checking {plan.out}"):
            verify_once(plan.out, published)
    except IndexMismatch as error:
        if plan.change is not None and not isinstance(plan.change, Replace):
            raise
        say(f"what is published is damaged, so all is built anew: {error.detail}")
        return None
    return published


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
    """The vectors of the version before, where it keeps them and they are of this encoder in this precision."""
    if published is None or not _keeps_vectors(plan, published) or published.precision not in {"", plan.precision}:
        return None
    return KnownVectors(plan.out / published.version)


def _keeps_vectors(plan: BuildPlan, published: Manifest) -> bool:
    """Whether the version before has vectors that this build can take over."""
    there = (plan.out / published.version / VECTORS_FILE).exists()
    return there and plan.documents is not None and published.encoder.same_vectors_as(plan.encoder.identity)


def _is_current(plan: BuildPlan, sources: tuple[FileRecord, ...], manifest: Manifest) -> bool:
    same_input = [file.sha256 for file in manifest.sources] == [file.sha256 for file in sources]
    same_rules = manifest.encoder.same_vectors_as(plan.encoder.identity) and (manifest.kind, manifest.lexical) == (
        plan.kind,
        plan.lexical,
    )
    same_precision = plan.precision == "auto" or manifest.precision in {"", plan.precision}
    if not (same_input and same_rules and same_precision):
        return False
    if plan.milvus is None or manifest.kind != "milvus":
        return True
    from retriever.index import milvus  # takes seconds to import, and only this kind needs it

    return milvus.holds(plan.milvus, manifest.version, manifest.passages)


def _queries(corpus: CorpusStore, encoder: Encoder) -> Vectors:
    """Titles spread over the corpus (or first words, where there is none): what recall of an approximate kind is measured with."""
    rows = np.linspace(0, len(corpus) - 1, min(len(corpus), _RECALL_QUERIES)).astype(int).tolist()
    passages = [corpus[row] for row in rows]
    return encoder.encode_queries([passage.title or " ".join(passage.text.split()[:12]) for passage in passages])
