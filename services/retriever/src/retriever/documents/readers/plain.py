"""Plain text."""

from __future__ import annotations

from pathlib import Path

from retriever.documents.document import Document, Part
from retriever.documents.readers.encoding import read_text


def read_plain(path: Path) -> Document:
    return Document("", (Part(read_text(path)),))
