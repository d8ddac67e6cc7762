"""CSV: each row is a part of its own, with the names of the columns that it fills."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from retriever.documents.document import Document, Part, Unreadable, one_line
from retriever.documents.readers.encoding import read_text

MAX_ROWS = 1_000_000
_SAMPLE_CHARACTERS = 20_000


def read_table(path: Path) -> Document:
    text = read_text(path)
    csv.field_size_limit(10_000_000)
    return Document("", tuple(_rows(text)))


def _rows(text: str) -> Iterator[Part]:
    rows = csv.reader(io.StringIO(text, newline=""), _dialect(text[:_SAMPLE_CHARACTERS]))
    names = [one_line(name) for name in next(rows, [])]
    for number, row in enumerate(rows, 2):
        if number > MAX_ROWS:
            raise Unreadable(f"has more than {MAX_ROWS:,} rows; split it")
        filled = [(names[place] if place < len(names) else "", value) for place, value in enumerate(row) if value.strip()]
        yield Part("\n".join(f"{name}: {value}" if name else value for name, value in filled), f"row {number}")


def _dialect(sample: str) -> type[csv.Dialect]:
    try:
        dialect = csv.Sniffer().sniff(sample, ",;\t|")
    except csv.Error:
        return csv.excel
    dialect.doublequote = True  # which the sniffer says only where a quote within quotes stands in the sample
    return dialect
