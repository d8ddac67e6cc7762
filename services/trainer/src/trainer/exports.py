"""The models that a run writes as it goes, `global_stepN_hf`: which are whole, and which are no longer kept.

OpenRLHF rotates its own checkpoints but not these, and a full disk leaves one half-written.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"(?:best_)?global_step(\d+)_hf")
_HEADER_BYTES = 8
_MAX_HEADER = 100_000_000
WEIGHTS = ("model.safetensors", "adapter_model.safetensors", "adapter_model.bin", "pytorch_model.bin")
SHARDS = "model.safetensors.index.json"
NOT_AS_WRITTEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading JSON of another shape than expected raises."""


@dataclass(frozen=True, slots=True)
class Export:
    step: int
    folder: Path

    @property
    def is_whole(self) -> bool:
        """Whether configuration and every byte of the weights are there."""
        if not (self.folder / "config.json").is_file():
            return False
        if (self.folder / SHARDS).is_file():
            return _has_all_shards(self.folder)
        return any(_is_complete(self.folder / name) for name in WEIGHTS)


def exports(checkpoints: Path) -> list[Export]:
    """By step."""
    folders = [path for path in checkpoints.iterdir() if path.is_dir()] if checkpoints.is_dir() else []
    found = [Export(int(match[1]), path) for path in folders if (match := _NAME.fullmatch(path.name))]
    return sorted(found, key=lambda export: (export.step, export.folder.name))


def drop_old(checkpoints: Path, keep: int) -> None:
    """Leaves the last `keep` whole exports, and those that are still being written."""
    whole = [export for export in exports(checkpoints) if export.is_whole]
    for export in whole[:-keep]:
        shutil.rmtree(export.folder, ignore_errors=True)


def drop_torn(checkpoints: Path) -> None:
    """Removes what was left half-written; only for a run that has ended."""
    for export in exports(checkpoints):
        if not export.is_whole:
            shutil.rmtree(export.folder, ignore_errors=True)


def _has_all_shards(folder: Path) -> bool:
    try:
        shards = set(json.loads((folder / SHARDS).read_bytes())["weight_map"].values())
    except NOT_AS_WRITTEN:
        return False
    return bool(shards) and all(_is_complete(folder / str(name)) for name in shards)


def _is_complete(path: Path) -> bool:
    if not path.is_file():
        return False
    return zipfile.is_zipfile(path) if path.suffix == ".bin" else _safetensors_bytes(path) == path.stat().st_size


def _safetensors_bytes(path: Path) -> int | None:
    """The size that the file's own header promises; None if there is no whole header."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_HEADER_BYTES), "little")
        header = file.read(length) if length <= _MAX_HEADER else b""
    try:
        tensors = json.loads(header)
        ends = [int(tensor["data_offsets"][1]) for name, tensor in tensors.items() if name != "__metadata__"]
    except NOT_AS_WRITTEN:
        return None
    return _HEADER_BYTES + length + max(ends, default=0)
