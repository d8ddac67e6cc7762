"""From a file to a clean `Document`, by its format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from retriever.documents.document import Document, Unreadable, tidied
from retriever.documents.formats import Format, check_content
from retriever.documents.readers.docx import read_docx
from retriever.documents.readers.html import read_html
from retriever.documents.readers.markdown import read_markdown
from retriever.documents.readers.pdf import read_pdf
from retriever.documents.readers.plain import read_plain
from retriever.documents.readers.table import read_table

READERS: dict[Format, Callable[[Path], Document]] = {
    Format.TEXT: read_plain,
    Format.MARKDOWN: read_markdown,
    Format.HTML: read_html,
    Format.PDF: read_pdf,
    Format.DOCX: read_docx,
    Format.CSV: read_table,
}


def read_document(path: Path, expected: Format, name: str) -> Document:
    """`name` is what the file is called where it came from: the title of a document that has none.

    Raises:
        Unreadable: with the reason.
    """
    try:
        check_content(path, expected)
        return tidied(READERS[expected](path), PurePath(name).stem)
    except Unreadable:
        raise
    except MemoryError:
        raise Unreadable("needs more memory than a document may") from None
    except Exception as error:  # noqa: BLE001  # parsers raise whatever Python raises in the corners that broken files reach
        raise Unreadable(f"is a broken {expected} file ({type(error).__name__}: {str(error)[:120]})") from None
