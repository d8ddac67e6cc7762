"""Bytes to text: the encoding that a file declares or that fits, never a guess that loses characters without a word."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from charset_normalizer import from_bytes

from retriever.documents.document import Unreadable

_SAMPLE_BYTES = 200_000
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DECLARED = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([A-Za-z0-9_\-:.]{2,40})""", re.IGNORECASE)


def read_text(path: Path, *, html: bool = False) -> str:
    """The text of a file: by its byte order mark, as UTF-8, as its HTML declares, else in the encoding that fits best.

    Raises:
        Unreadable: no encoding fits, or it is no text at all.
    """
    data = path.read_bytes()
    text = _decoded(data, html)
    if "\x00" in text:
        raise Unreadable("is no text: it holds NUL characters; save it as UTF-8")
    return text


def _decoded(data: bytes, html: bool) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                name = encoding.removesuffix("-sig")
                raise Unreadable(f"begins as {name}, and byte {error.start} is not; save it as UTF-8") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if html and (declared := _DECLARED.search(data[:_SAMPLE_BYTES])):
        try:
            return data.decode(declared.group(1).decode())
        except (LookupError, UnicodeError):  # the latter of `undefined`, too, which is a name of an encoding
            pass
    return _best_fit(data)


def _best_fit(data: bytes) -> str:
    best = from_bytes(data[:_SAMPLE_BYTES]).best()
    if best is None:
        raise Unreadable("is text in no encoding that is known; save it as UTF-8")
    try:
        return data.decode(best.encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"seems to be {best.encoding}, and byte {error.start} is not; save it as UTF-8") from None
