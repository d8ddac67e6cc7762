"""What a reader makes of a file: parts of plain text with the headings above them and the page they stand on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SECTION_SEPARATOR = " › "
MAX_TEXT_CHARACTERS = 20_000_000
MAX_METADATA_CHARACTERS = 500
MAX_METADATA_FIELDS = 32

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff]")
_SPACES = re.compile(r"[ \t\u00a0]+")
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


class Unreadable(ValueError):
    """Why a file cannot be read, as the end of a sentence that begins with its name."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of text under one heading and on one page. `section` holds the headings above it, outermost first."""

    text: str
    section: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A file as text. `date` is ISO 8601 (a day, or a moment) and empty where the file does not say; `metadata` is free."""

    title: str
    parts: tuple[Part, ...]
    url: str = ""
    date: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


def tidy(text: str) -> str:
    """Without characters that cannot be seen or stored; runs of spaces become one and runs of blank lines one."""
    bare = _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n"))
    lines = (_SPACES.sub(" ", line).rstrip() for line in bare.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def one_line(text: str) -> str:
    return " ".join(tidy(text).split())


def tidied(document: Document, fallback_title: str) -> Document:
    """The document with clean text and without empty parts.

    Raises:
        Unreadable: it holds no text, or more than is read.
    """
    if sum(len(part.text) for part in document.parts) > MAX_TEXT_CHARACTERS:
        raise Unreadable(f"holds more than {MAX_TEXT_CHARACTERS:,} characters of text; split it")
    parts = (Part(tidy(part.text), one_line(part.section)[:MAX_METADATA_CHARACTERS], part.page) for part in document.parts)
    kept = tuple(part for part in parts if part.text)
    if not kept:
        raise Unreadable("holds no text")
    metadata = {one_line(name)[:64]: one_line(value)[:MAX_METADATA_CHARACTERS] for name, value in document.metadata.items()}
    few = dict([(name, value) for name, value in metadata.items() if name and value][:MAX_METADATA_FIELDS])
    title = one_line(document.title)[:MAX_METADATA_CHARACTERS] or fallback_title
    return Document(title, kept, one_line(document.url)[:2_000], one_line(document.date), few)


def says_more(heading: str, title: str) -> bool:
    """Whether a heading that could be the title has words that the title, which came from elsewhere, has not."""
    return heading.casefold() not in title.casefold()


class Outline:
    """The headings that a place stands under, kept while a document is walked through."""

    def __init__(self) -> None:
        self._levels: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> None:
        """A heading of `level` ends those as deep or deeper."""
        while self._levels and self._levels[-1][0] >= level:
            self._levels.pop()
        if heading:
            self._levels.append((level, heading))

    @property
    def section(self) -> str:
        return SECTION_SEPARATOR.join(heading for _, heading in self._levels)
