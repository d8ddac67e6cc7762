"""The demo corpus that rides in the package, whether its index is there, and the step that builds it."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.resources import files
from pathlib import Path

from parallelsearch.supervisor.steps import Step

MANIFEST = "manifest.json"


def corpus() -> Path:
    return Path(str(files("parallelsearch") / "demo" / "corpus.jsonl"))


def is_current(index: Path, source: Path) -> bool:
    """Whether the published index was built from these very bytes; the retriever checks the rest when it opens it."""
    try:
        manifest = json.loads((index / MANIFEST).read_bytes())
        hashes = [record["sha256"] for record in manifest["sources"]]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    return source.is_file() and hashes == [hashlib.sha256(source.read_bytes()).hexdigest()]


def build_step(index: Path) -> Step:
    command = (sys.executable, "-m", "retriever", "index", "build", str(corpus()), "--out", str(index))
    return Step("index", command)
