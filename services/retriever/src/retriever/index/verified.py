"""Which files of an index were compared with its manifest, so that opening it again does not read them all once more.

DIR/<version>/verified.json holds size, time of change and inode of each file as it was when its bytes were last compared. A copy, a
restored backup and a changed file differ in one of them. `index inspect` always reads the bytes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import orjson

from retriever.index.manifest import Manifest, verify_files

STAMP_FILE = "verified.json"
Stamps = dict[str, list[int]]


def verify_once(folder: Path, manifest: Manifest) -> None:
    """Compares every file of the index with the manifest unless that was done and none has changed since.

    Where the folder cannot be written nothing is remembered.

    Raises:
        IndexMismatch: a file is missing or has other bytes.
    """
    data = folder / manifest.version
    stamps = stamps_of(data, manifest)
    if stamps is not None and stamps == _remembered(data, manifest):
        return
    verify_files(folder, manifest)
    if stamps is not None:
        _remember(data, manifest, stamps)


def stamps_of(data: Path, manifest: Manifest) -> Stamps | None:
    """Size, time of change and inode of each file; None where one is missing or out of reach."""
    paths = [data / file.name for file in manifest.files]
    try:
        found = {path.name: path.stat() for path in paths}
    except OSError:
        return None
    if not all(os.access(path, os.R_OK, effective_ids=True) for path in paths):
        return None
    return {name: [stat.st_size, stat.st_mtime_ns, stat.st_ino] for name, stat in found.items()}


def _remembered(data: Path, manifest: Manifest) -> Stamps | None:
    try:
        content = orjson.loads((data / STAMP_FILE).read_bytes())
        return content["files"] if content["fingerprint"] == manifest.fingerprint else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(data: Path, manifest: Manifest, stamps: Stamps) -> None:
    new = data / f"{STAMP_FILE}.{os.getpid()}"
    with suppress(OSError):
        new.write_bytes(orjson.dumps({"fingerprint": manifest.fingerprint, "files": stamps}))
        new.replace(data / STAMP_FILE)
