"""The versions of an index that lie on disk, and the way back to the one before."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from parallelsearch.errors import ConfigurationError, IndexMismatch
from retriever.index.manifest import MANIFEST_FILE, Manifest, damage_of, publish, read_manifest, verify_files

_VERSION = re.compile(r"[0-9a-f]{16}")
_ADAPTER = TypeAdapter(Manifest)


def read_version(folder: Path, version: str) -> Manifest | None:
    """The manifest that a version was published with, if it is there."""
    try:
        return _ADAPTER.validate_json((folder / version / MANIFEST_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def versions_before(folder: Path, manifest: Manifest) -> list[str]:
    """This version and those that were served before it, newest first."""
    chain, current = [manifest.version], manifest.previous
    while current and current not in chain:
        chain.append(current)
        earlier = read_version(folder, current)
        current = earlier.previous if earlier else ""
    return chain


def stale_versions(folder: Path, kept: Collection[str]) -> list[str]:
    """The versions on disk that are not among those."""
    return sorted(
        path.name for path in folder.iterdir() if path.is_dir() and _VERSION.fullmatch(path.name) and path.name not in kept
    )


def roll_back(folder: Path) -> Manifest:
    """Serves the version before again, after its files have been checked. Called again, it goes one further back.

    Raises:
        ConfigurationError: there is none.
        IndexMismatch: its manifest or its files are not what they were.
    """
    current = read_manifest(folder)
    earlier = read_version(folder, current.previous) if current.previous else None
    if earlier is None:
        raise ConfigurationError(f"{folder} keeps no version before the one that is served. Build with --keep to have more.")
    if damage := damage_of(earlier):
        raise IndexMismatch(f"{folder / earlier.version / MANIFEST_FILE} is damaged ({damage}). The version that is served stays.")
    verify_files(folder, earlier)
    publish(folder, earlier)
    return earlier
