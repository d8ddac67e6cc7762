"""`python -m gateway.keys NAME [FILE]`: makes an API key, shows it once, and adds its hash to the keys file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import orjson
from pydantic import ValidationError

from gateway.auth import ApiKey, load_keys, new_key
from parallelsearch.errors import ConfigurationError
from servicekit.errors import said


def add_key(name: str, path: Path) -> str:
    """The new key. A key of the same name is replaced; the file stays readable by its owner alone."""
    token, key = new_key(name)
    kept = [entry for entry in load_keys(path) if entry.name != name] if path.exists() else []
    _write(path, [*kept, key])
    return token


def _write(path: Path, keys: list[ApiKey]) -> None:
    content = orjson.dumps([key.model_dump(exclude_none=True) for key in keys], option=orjson.OPT_INDENT_2)
    part = path.with_name(path.name + ".part")
    part.touch(mode=0o600)
    part.write_bytes(content + b"\n")
    part.replace(path)


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        raise SystemExit("usage: python -m gateway.keys NAME [FILE]")
    path = Path(sys.argv[2] if len(sys.argv) == 3 else os.environ.get("GATEWAY_API_KEYS_FILE", "api-keys.json"))
    try:
        sys.stdout.write(add_key(sys.argv[1], path) + "\n")
    except ValidationError as error:
        raise SystemExit(f"NAME: {said(error.errors()[0])}") from None
    except ConfigurationError as error:
        raise SystemExit(error.detail) from None
    except OSError as error:
        raise SystemExit(f"FILE: {path} cannot be written: {error.strerror}.") from None


if __name__ == "__main__":
    main()
