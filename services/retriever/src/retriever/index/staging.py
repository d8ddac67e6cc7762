"""The work folder of a build, DIR/.building: who may work in it, and what a build that was killed left there."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from parallelsearch.errors import ConfigurationError, ParallelSearchError
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE
from retriever.encoders.lazy import SETTLED, settled_precision
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.errors import AtWork
from retriever.index.manifest import BUILDING_FOLDER, FileRecord, SettledPrecision
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
            raise AtWork(f"Another build works in {out}. Wait until it ends, or choose another folder.") from None
        with _named(out):
            yield


@contextmanager
def _named(out: Path) -> Iterator[None]:
    """A full disk does not say which: the error of a write names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(out)) from error


def staging_of(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> Path:
    """The work folder: the old one if it was begun for the same build, else an empty one."""
    staging = plan.out / BUILDING_FOLDER
    begun, wanted = _begun(plan), _needs(plan, sources)
    if begun == wanted:
        say("going on with a build that did not end")
        return staging
    if begun is not None:
        other = ", ".join(name for name, value in wanted.items() if begun.get(name) != value)
        say(f"the build that did not end was of another {other}: what it encoded is thrown away, and all is encoded anew")
    shutil.rmtree(staging, ignore_errors=True)
    (staging / DATA_FOLDER).mkdir(parents=True)
    (staging / _PLAN_FILE).write_bytes(orjson.dumps(wanted))
    return staging


def with_settled_precision(plan: BuildPlan, sources: tuple[FileRecord, ...], taken_over: SettledPrecision) -> BuildPlan:
    """The plan with what `auto` comes to: the precision of the build that did not end, so that all blocks are of one wherever it
    goes on; else that of the vectors that are taken over, if any; else that of who encodes."""
    if plan.precision != "auto":
        return plan
    before = next((each for each in SETTLED if _goes_on(replace(plan, precision=each), sources)), None)
    return replace(plan, precision=before or taken_over or settled_precision(plan.encoder, plan.running))


def _goes_on(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> bool:
    return _begun(plan) == _needs(plan, sources)


def discard_staging(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> None:
    """Removes what this build left, if it was killed when it had published; what another one can go on with stays for it."""
    precisions = SETTLED if plan.precision == "auto" else (plan.precision,)
    if _begun(plan) is None or any(_goes_on(replace(plan, precision=each), sources) for each in precisions):
        shutil.rmtree(plan.out / BUILDING_FOLDER, ignore_errors=True)


def _begun(plan: BuildPlan) -> dict[str, Any] | None:
    """What the build needs that lies in the work folder; None where there is none."""
    try:
        found = orjson.loads((plan.out / BUILDING_FOLDER / _PLAN_FILE).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _needs(plan: BuildPlan, sources: tuple[FileRecord, ...]) -> dict[str, Any]:
    """What blocks depend on, by what it is called to whoever changed it."""
    encoder = plan.encoder.identity
    return {
        "corpus": [file.sha256 for file in sources],
        "encoder": encoder.digest,
        "settings of the encoder": encoder.settings,
        **{f"{name.replace('_', ' ')} of the encoder": value for name, value in asdict(encoder.rules).items()},
        "--block-passages": plan.block_passages,
        "--precision": plan.precision,
    }


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
