"""PDF by pypdf, page by page."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from pypdf import DocumentInformation, PdfReader

from retriever.documents.document import Document, Part, Unreadable

MAX_PAGES = 10_000


def read_pdf(path: Path) -> Document:
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("is password-protected")
    if not reader.pages:
        raise Unreadable("is a broken PDF: it has no page")
    if len(reader.pages) > MAX_PAGES:
        raise Unreadable(f"has more than {MAX_PAGES:,} pages; split it")
    parts = tuple(Part(page.extract_text(), "", number) for number, page in enumerate(reader.pages, 1))
    if not any(part.text.strip() for part in parts):
        raise Unreadable("holds no text: its pages are pictures")
    facts = reader.metadata
    changed = _changed(facts) if facts else None
    author = str(facts.author) if facts and facts.author else ""
    title = str(facts.title) if facts and facts.title else ""
    return Document(title, parts, "", changed.isoformat() if changed else "", {"author": author} if author else {})


def _changed(facts: DocumentInformation) -> datetime | None:
    """None also where a date is not written as one, which says nothing of the text."""
    for name in ("modification_date", "creation_date"):
        try:
            moment: datetime | None = getattr(facts, name)
        except (ValueError, OverflowError):
            continue
        if moment is not None:
            return moment
    return None
