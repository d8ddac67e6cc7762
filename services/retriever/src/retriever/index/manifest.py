"""What an index says about itself, and where its files lie.

DIR/manifest.json     published last, by a rename: what it names is served, anything else is not
DIR/<version>/        passages.jsonl, offsets.u64, the file of the kind, and a copy of its manifest; never changed after
                      publication, but for verified.json
DIR/.building/        work in progress
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import orjson
from pydantic import TypeAdapter, ValidationError

from parallelsearch.errors import ConfigurationError, IndexMismatch
from retriever.corpus.store import OFFSETS_FILE, PASSAGES_FILE, offsets_bytes
from retriever.encoders.identity import EncoderIdentity

MANIFEST_FILE, BUILDING_FOLDER = "manifest.json", ".building"
VECTORS_FILE, FAISS_FILE, DIGEST_FILE = "vectors.npy", "index.faiss", "vectors.sha256"
LEXICAL_FILES = tuple(f"bm25.{part}" for part in ("data.npy", "indices.npy", "indptr.npy", "vocabulary.json", "parameters.json"))
FORMAT = 1

SettledPrecision = Literal["", "float32", "bfloat16"]
Kind = Literal["flat", "ivf_sq8", "hnsw", "milvus"]


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search visits (cells, or candidates), and the share of the exact top 3 it found; (0, 1.0) for an exact kind."""

    visits: int = 0
    recall_at_3: float = 1.0


EXACT = Effort()


def file_of(kind: Kind) -> str:
    """What stands for the vectors in the folder of a version; Milvus keeps them elsewhere, so there it is their digest."""
    return {"flat": VECTORS_FILE, "milvus": DIGEST_FILE}.get(kind, FAISS_FILE)


@dataclass(frozen=True, slots=True)
class MilvusAddress:
    """`uri` is that of a server, or a file for the embedded edition."""

    uri: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class FileRecord:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DocumentRules:
    """How documents become passages: chunks of so many tokens, each repeating so many; addresses are put under `base_url`."""

    chunk_tokens: int
    overlap_tokens: int
    base_url: str = ""
    documents: int = 0
    """How many there are, whatever became of them."""
    keep: int = 2
    """Versions that stay on disk."""

    def same_passages_as(self, other: DocumentRules) -> bool:
        """Whether both make the same passages of the same documents."""
        mine, theirs = ((each.chunk_tokens, each.overlap_tokens, each.base_url) for each in (self, other))
        return mine == theirs


@dataclass(frozen=True, slots=True)
class Manifest:
    """`fingerprint` is a hash over encoder, kind and the bytes of corpus and vectors; `sources` are the caller's files.

    `previous` is the version that was served before, and `documents` is absent where the corpus was given as passages.
    """

    format: int
    fingerprint: str
    version: str
    encoder: EncoderIdentity
    kind: Kind
    metric: Literal["inner_product"]
    dimension: int
    passages: int
    effort: Effort
    lexical: bool
    files: tuple[FileRecord, ...]
    sources: tuple[FileRecord, ...]
    built_at: str
    build_seconds: float
    previous: str = ""
    documents: DocumentRules | None = None
    precision: SettledPrecision = ""
    """That the passages were encoded in; empty where the build did not note it."""


_ADAPTER = TypeAdapter(Manifest)


def fingerprint_of(encoder: EncoderIdentity, kind: Kind, effort: Effort, files: tuple[FileRecord, ...]) -> str:
    """sha256, 32 hex digits; the encoder's name and the build's date do not count."""
    settings = [encoder.settings] if encoder.settings else []
    parts = {"encoder": [encoder.digest, encoder.dimension, asdict(encoder.rules), *settings], "kind": [kind, effort.visits]}
    parts["files"] = [[file.name, file.sha256] for file in files]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def version_of(fingerprint: str) -> str:
    return fingerprint[:16]


def record(path: Path) -> FileRecord:
    with path.open("rb") as file:
        return FileRecord(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def read_manifest(folder: Path) -> Manifest:
    """The published manifest of an index.

    Raises:
        ConfigurationError: there is no index, or its manifest cannot be understood.
    """
    path = folder / MANIFEST_FILE
    build = f"parallelsearch index build CORPUS --out {folder}"
    try:
        manifest = _ADAPTER.validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        state = "holds an unfinished build" if (folder / BUILDING_FOLDER).exists() else "holds no index"
        raise ConfigurationError(f"{folder} {state}. Build it with: {build}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}). Check its permissions.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigurationError(f"{path} is damaged ({where}: {first['msg']}). Build the index again: {build}") from None
    if manifest.format != FORMAT:
        raise ConfigurationError(f"{path} has format {manifest.format}, this release reads {FORMAT}. Build it again: {build}")
    if damage := damage_of(manifest):
        raise ConfigurationError(f"{path} is damaged ({damage}). Build the index again: {build}")
    return manifest


def damage_of(manifest: Manifest) -> str:
    """What in it does not belong to the rest; empty where all does."""
    needed = {
        PASSAGES_FILE,
        OFFSETS_FILE,
        file_of(manifest.kind),
        *(LEXICAL_FILES if manifest.lexical and manifest.passages else ()),
    }
    if missing := sorted(needed - {file.name for file in manifest.files}):
        return f"files: {missing[0]} is not among them"
    if manifest.fingerprint != fingerprint_of(manifest.encoder, manifest.kind, manifest.effort, manifest.files):
        return "fingerprint: it is of another encoder, kind, effort or other files"
    if manifest.version != version_of(manifest.fingerprint):
        return "version: it is not that of the fingerprint"
    if manifest.dimension != manifest.encoder.dimension:
        return f"dimension: it is {manifest.dimension}, and the encoder gives {manifest.encoder.dimension}"
    offsets = next(file.bytes for file in manifest.files if file.name == OFFSETS_FILE)
    if offsets != offsets_bytes(manifest.passages):
        return f"passages: {manifest.passages:,} do not fit {OFFSETS_FILE} of {offsets:,} bytes"
    return ""


def to_json(manifest: Manifest) -> str:
    return _ADAPTER.dump_json(manifest, indent=1).decode()


def publish(folder: Path, manifest: Manifest) -> None:
    """Makes `manifest` that of `folder` (of an index: the one that is served), in one step that a crash cannot halve."""
    staged = folder / f"{MANIFEST_FILE}.new"
    write_manifest(staged, manifest)
    staged.replace(folder / MANIFEST_FILE)
    sync_folder(folder)


def write_manifest(path: Path, manifest: Manifest) -> None:
    with path.open("wb") as file:
        file.write(to_json(manifest).encode())
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Compares every file of the index with the manifest.

    Raises:
        IndexMismatch: a file is missing, cannot be read or has other bytes.
    """
    for expected in manifest.files:
        path = folder / manifest.version / expected.name
        again = f"Restore the file, or build the index again: parallelsearch index build CORPUS --out {folder}"
        try:
            if path.is_file() and (size := path.stat().st_size) != expected.bytes:
                raise IndexMismatch(f"{path} has {size} bytes; the manifest says {expected.bytes}. {again}")
            found = record(path)
        except (FileNotFoundError, NotADirectoryError):
            raise IndexMismatch(f"{path} is missing, but {folder / MANIFEST_FILE} lists it. {again}") from None
        except OSError as error:
            raise IndexMismatch(f"{path} cannot be read ({error.strerror}). {again}") from None
        if found != expected:
            raise IndexMismatch(f"{path} has sha256 {found.sha256[:12]}; the manifest says {expected.sha256[:12]}. {again}")
