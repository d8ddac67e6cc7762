"""From a finished work folder to the version that is served: its manifest, then the moves that a crash cannot halve."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from parallelsearch.errors import IndexMismatch
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE
from retriever.documents.records import read_records
from retriever.index.blocks import Blocks
from retriever.index.manifest import (
    FORMAT,
    LEXICAL_FILES,
    MANIFEST_FILE,
    VECTORS_FILE,
    Effort,
    FileRecord,
    Manifest,
    MilvusAddress,
    file_of,
    fingerprint_of,
    publish,
    record,
    sync_folder,
    version_of,
    write_manifest,
)
from retriever.index.plan import BuildPlan, CorpusSource
from retriever.index.progress import Progress
from retriever.index.staging import DATA_FOLDER
from retriever.index.verified import verify_once
from retriever.index.versions import stale_versions, versions_before


def file_names(plan: BuildPlan, source: CorpusSource, passages: int) -> tuple[str, ...]:
    """A set of documents keeps its vectors whatever the kind: for the next version, and for exact search among a few."""
    kept = tuple(dict.fromkeys((file_of(plan.kind), *((VECTORS_FILE,) if plan.documents else ()))))
    return (PASSAGES_FILE, OFFSETS_FILE, *source.files, *kept, *(LEXICAL_FILES if plan.lexical and passages else ()))


def describe(
    plan: BuildPlan,
    sources: tuple[FileRecord, ...],
    data: Path,
    names: tuple[str, ...],
    passages: int,
    effort: Effort,
    seconds: float,
    published: Manifest | None,
) -> Manifest:
    """Hashes the files called `names`; `published` is what is served until now."""
    encoder = plan.encoder.identity
    with Progress("hashing the index"):
        files = tuple(record(data / name) for name in names)
    fingerprint = fingerprint_of(encoder, plan.kind, effort, files)
    version = version_of(fingerprint)
    return Manifest(
        format=FORMAT,
        fingerprint=fingerprint,
        version=version,
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
        previous=_before(published, version),
        precision="" if plan.precision == "auto" else plan.precision,
        documents=replace(plan.documents, documents=len(read_records(data)), keep=plan.keep) if plan.documents else None,
    )


def _before(published: Manifest | None, version: str) -> str:
    """The version that was served before this one."""
    if published is None:
        return ""
    return published.previous if published.version == version else published.version


def _is_there(out: Path, manifest: Manifest) -> bool:
    try:
        verify_once(out, manifest)
    except IndexMismatch:
        return False
    return True


def publish_version(plan: BuildPlan, staging: Path, blocks: Blocks, manifest: Manifest) -> None:
    """Moves the data into place, then the manifest, and removes the work folder and the versions that are too old.

    A version that is there already, from other files of the same passages, say, stays as it is: it may be the one that is served.
    The version served before stays for processes that are opening it, and to go back to. Vectors that go to Milvus go there first,
    so that a manifest never names a collection that is not filled; and a collection goes before the folder that tells of it.
    """
    out, data, target = plan.out, staging / DATA_FOLDER, plan.out / manifest.version
    kept_by: MilvusAddress | None = plan.milvus if plan.kind == "milvus" else None
    there = _is_there(out, manifest)
    if kept_by is not None:
        from retriever.index import milvus  # takes seconds to import, and only this kind needs it

        if not (there and milvus.holds(kept_by, manifest.version, blocks.rows)):
            milvus.fill(kept_by, manifest.version, blocks, manifest.dimension)
    if there:
        publish(target, manifest)
    else:
        shutil.rmtree(target, ignore_errors=True)
        write_manifest(data / MANIFEST_FILE, manifest)
        data.rename(target)
        sync_folder(out)
    publish(out, manifest)
    shutil.rmtree(staging)
    for version in stale_versions(out, versions_before(out, manifest)[: max(1, plan.keep)]):
        if kept_by is not None:
            milvus.drop(kept_by, version)
        shutil.rmtree(out / version)
