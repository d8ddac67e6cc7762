"""The work folder of a build, DIR/.building: who may work in it, and what a build that was killed left there."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import orjson

from parallelsearch.errors import ConfigurationError, ParallelSearchError
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.manifest import BUILDING_FOLDER, FileRecord
from retriever.index.plan import BuildPlan, CorpusSource
from retriever.index.progress import say

DATA_FOLDER = "data"
"""What becomes the version that is served."""
_INGESTED, _PLAN_FILE = "ingested", "plan.json"


@contextmanager
def only_builder(out: Path) -> Iterator[None]:
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


def staging_of(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> Path:
    """The work folder: the old one if it was begun for the same build, else an empty one."""
    staging = plan.out / BUILDING_FOLDER
    if _begun_for(plan, sources):
        say("going on with a build that did not end")
        return staging
    shutil.rmtree(staging, ignore_errors=True)
    (staging / DATA_FOLDER).mkdir(parents=True)
    (staging / _PLAN_FILE).write_bytes(_written(plan, sources))
    return staging


def discard_staging(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> None:
    """Removes what this build left, if it was killed when it had published; what another one can go on with stays for it."""
    staging = plan.out / BUILDING_FOLDER
    if _begun_for(plan, sources) or not (staging / _PLAN_FILE).exists():
        shutil.rmtree(staging, ignore_errors=True)


def _begun_for(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> bool:
    begun = plan.out / BUILDING_FOLDER / _PLAN_FILE
    return begun.exists() and begun.read_bytes() == _written(plan, sources)


def _written(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> bytes:
    """What blocks depend on."""
    encoder = plan.encoder.identity
    return orjson.dumps(
        {
            "sources": [file.sha256 for file in sources],
            "encoder": [encoder.digest, asdict(encoder.rules)],
            "block": plan.block_passages,
            "precision": plan.precision,
        }
    )


def ingest(source: CorpusSource, staging: Path, data: Path, encoder: ResolvedEncoder) -> None:
    """Writes the corpus, unless it is there; it is not where a build was killed after its data had been moved into place."""
    if (staging / _INGESTED).exists() and data.exists():
        return
    (staging / _INGESTED).unlink(missing_ok=True)
    data.mkdir(exist_ok=True)
    try:
        source.ingest(staging, data, encoder)
    except ParallelSearchError:
        shutil.rmtree(staging)
        raise
    sync_files(*(data / name for name in (PASSAGES_FILE, OFFSETS_FILE, *source.files)))
    (staging / _INGESTED).touch()


def sync_files(*paths: Path) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
