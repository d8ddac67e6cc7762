"""Which paths a run may name: models, data and checkpoints come from allowed roots only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from parallelsearch.errors import InvalidInput


def resolve(place: str, roots: Sequence[Path], field: str) -> Path:
    """The real path of `place`, which is absolute or lies below one of the roots; links are followed before judging.

    Raises:
        InvalidInput: it is outside of every root, or not there; names the field.
    """
    allowed = [root.resolve() for root in roots]
    for candidate in [Path(place)] if Path(place).is_absolute() else [root / place for root in allowed]:
        # Names that are too long and links in a circle are not there either.
        with suppress(OSError, RuntimeError):
            real = candidate.resolve(strict=True)
            if any(real.is_relative_to(root) for root in allowed):
                return real
    names = ", ".join(map(str, roots)) or "none"
    raise InvalidInput(f"{field}: {place} is not there, or not below an allowed root ({names}).")


def resolve_model(place: str, roots: Sequence[Path], field: str = "model") -> Path:
    """A model directory (with `config.json`, a JSON object)."""
    path = resolve(place, roots, field)
    if not (path / "config.json").is_file():
        raise InvalidInput(f"{field}: {place} holds no config.json, so it is no model directory.")
    try:
        is_object = isinstance(orjson.loads((path / "config.json").read_bytes()), dict)
    except (OSError, orjson.JSONDecodeError):
        is_object = False
    if not is_object:
        raise InvalidInput(f"{field}: the config.json of {place} cannot be read as a JSON object; copy the model anew.")
    return path
