"""Word documents by python-docx: headings by their styles, tables row by row."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.table import Table

from retriever.documents.document import Document, Outline, Part, Unreadable, one_line, says_more

MAX_UNPACKED_BYTES = 200_000_000
MAX_RATIO = 200
MAX_ENTRIES = 10_000
_HEADING = re.compile(r"^heading (\d)$", re.IGNORECASE)


def read_docx(path: Path) -> Document:
    refuse_bomb(path)
    document = docx.Document(str(path))
    if all(each.reltype != RELATIONSHIP_TYPE.CORE_PROPERTIES for each in document.part.package.rels.values()):
        title, parts = _parts(document, "")  # python-docx would make facts up
        return Document(title, tuple(parts))
    facts = document.core_properties
    title, parts = _parts(document, one_line(facts.title))
    changed = facts.modified or facts.created
    metadata = {name: value for name in ("author", "subject", "keywords") if (value := getattr(facts, name, ""))}
    return Document(facts.title or title, tuple(parts), "", changed.isoformat() if changed else "", metadata)


def refuse_bomb(path: Path) -> None:
    """Raises Unreadable for an archive that unpacks to much more than a document does."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if any(entry.flag_bits & 1 for entry in entries):
            raise Unreadable("is password-protected")
        unpacked = sum(entry.file_size for entry in entries)
        packed = sum(entry.compress_size for entry in entries)
        if len(entries) > MAX_ENTRIES or unpacked > MAX_UNPACKED_BYTES or unpacked > 1_000_000 + MAX_RATIO * packed:
            raise Unreadable(f"unpacks to {unpacked:,} bytes in {len(entries):,} entries, which no document does")
        if "word/document.xml" not in archive.namelist():
            raise Unreadable("is no Word document, whatever its name says")


def _parts(document: Any, named: str) -> tuple[str, list[Part]]:
    """The title's paragraph, which is text too where the document is `named` in other words, and the text between headings."""
    outline, parts, pieces, title = Outline(), list[Part](), list[str](), ""
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            pieces.extend(_rows(block))
            continue
        style = (block.style.name or "") if block.style is not None else ""
        heading = _HEADING.match(style)
        if style.lower() == "title" and not title:
            title = one_line(block.text)
            if named and says_more(title, named):
                pieces.append(f"{block.text}\n")
        elif heading and block.text.strip():
            parts.append(Part("\n".join(pieces), outline.section))
            pieces = []
            outline.enter(int(heading.group(1)), one_line(block.text))
        elif block.text.strip():
            pieces.append(f"- {block.text}" if style.startswith("List") else f"{block.text}\n")
    return title, [*parts, Part("\n".join(pieces), outline.section)]


def _rows(table: Table) -> Iterator[str]:
    for row in table.rows:
        cells = {cell._tc: cell.text.strip() for cell in row.cells}  # merged cells come once per column
        yield " | ".join(cells.values())
    yield ""
