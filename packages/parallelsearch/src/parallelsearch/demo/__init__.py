"""The demo corpus and its labelled questions; all sentences are the project's own.

- `corpus.jsonl`: passages, `{"id", "title", "text"}`.
- `questions.jsonl`: questions of four kinds with gold answers, supporting passages and sub-questions.
- `graph_questions.jsonl`: questions labelled with their dependency graphs, traps among them, to measure decomposition.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def demo_file(name: str) -> Path:
    """The path of one of the files above, as installed."""
    return Path(str(files(__name__) / name))
