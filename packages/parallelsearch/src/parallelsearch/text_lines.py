"""Lines of text files as people's tools write them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator


def without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of one file, the first without the byte order mark that tools of Windows put before it."""
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(codecs.BOM_UTF8)
