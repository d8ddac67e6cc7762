"""Which files are documents: by the end of their name, and by their content, which must not say otherwise."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path, PurePath

from retriever.documents.document import Unreadable


class Format(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    CSV = "csv"


SUFFIXES = {
    ".txt": Format.TEXT,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".pdf": Format.PDF,
    ".docx": Format.DOCX,
    ".csv": Format.CSV,
}
_HEAD_BYTES = 1_024
_ZIP, _OLE, _PDF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"%PDF-"
_BINARY = {_ZIP: "a zip archive", _OLE: "an old Office file", b"\x7fELF": "a program", b"\x89PNG": "a picture"}
_BINARY |= {b"\xff\xd8\xff": "a picture", b"GIF8": "a picture", b"\x1f\x8b": "a gzip archive", _PDF: "a PDF"}


def format_of(name: str) -> Format | None:
    """None for a name that is no document's."""
    return SUFFIXES.get(PurePath(name).suffix.lower())


def check_content(path: Path, expected: Format) -> None:
    """Raises Unreadable where the content is not what the name says."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head:
        raise Unreadable("is empty")
    if expected is Format.PDF:
        if _PDF not in head:
            raise Unreadable("is no PDF, whatever its name says")
    elif expected is Format.DOCX:
        if head.startswith(_OLE):
            raise Unreadable("is password-protected, or an old .doc file")
        if not head.startswith(_ZIP):
            raise Unreadable("is no Word document, whatever its name says")
    else:
        found = next((kind for magic, kind in _BINARY.items() if head.startswith(magic)), None)
        if found:
            raise Unreadable(f"is {found}, whatever its name says")
