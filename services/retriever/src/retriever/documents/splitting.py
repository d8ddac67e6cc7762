"""Splits a document into chunks: under one heading, on one page, within so many tokens, each beginning with the end of the last.

Tokens are those of the encoder's own tokenizer. A chunk with its title and the encoder's prefix is never longer than the encoder
reads, which is counted on the whole and not added up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from parallelsearch.errors import ConfigurationError
from retriever.documents.document import SECTION_SEPARATOR, Document, Part
from retriever.encoders.identity import EncoderIdentity

SPECIAL_TOKENS = 2
LEAST_CHUNK_TOKENS = 32
_SENTENCES = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_WORDS = re.compile(r"\s+")
_TITLE_SHARE = 4
"""A title takes at most one in so many of the tokens that the encoder reads."""


@dataclass(frozen=True, slots=True)
class Splitting:
    """How long chunks are and how much of one is repeated at the head of the next, in tokens."""

    chunk_tokens: int
    overlap_tokens: int

    def __post_init__(self) -> None:
        if self.chunk_tokens < LEAST_CHUNK_TOKENS:
            raise ConfigurationError(f"--chunk-tokens must be at least {LEAST_CHUNK_TOKENS}, and is {self.chunk_tokens}.")
        if not 0 <= self.overlap_tokens <= self.chunk_tokens // 2:
            most = self.chunk_tokens // 2
            raise ConfigurationError(f"--overlap-tokens must be from 0 to {most}, half of a chunk, and is {self.overlap_tokens}.")


class Counter(Protocol):
    """A `TokenCounter`, as far as splitting needs it."""

    @property
    def identity(self) -> EncoderIdentity: ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, nothing added and nothing cut."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    title: str
    text: str
    section: str
    page: int | None


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence, or what is left of one that is too long, with the white space behind it."""

    text: str
    tokens: int


class Splitter:
    """Splits documents for one encoder."""

    def __init__(self, counter: Counter, splitting: Splitting) -> None:
        self._counter, self._splitting = counter, splitting
        rules = counter.identity.rules
        self._prefix, self._most = rules.passage_prefix, rules.max_tokens - SPECIAL_TOKENS

    def split(self, document: Document) -> Iterator[Chunk]:
        """The chunks of a document, in order; together they hold all of its text."""
        for part in document.parts:
            title = self._title(document.title, part.section)
            for text in self._texts(title, part):
                yield Chunk(title, text, part.section, part.page)

    def _title(self, title: str, section: str) -> str:
        """The document's title and the headings above the chunk, innermost kept, cut to its share."""
        whole = f"{title}{SECTION_SEPARATOR}{section}" if section else title
        most = self._most // _TITLE_SHARE
        words = whole.split(" ")
        while self._count(" ".join(words)) > most and len(words) > 1:
            words = words[: max(1, len(words) * 3 // 4)]
        cut = " ".join(words)
        while self._count(cut) > most and len(cut) > 1:
            cut = cut[: len(cut) * 3 // 4]
        return cut

    def _texts(self, title: str, part: Part) -> Iterator[str]:
        room = self._most - self._count(self._whole(title, ""))
        limit = min(self._splitting.chunk_tokens, room)
        overlap = min(self._splitting.overlap_tokens, limit // 2)
        units = self._units(part.text, limit)
        for chunk in _packed(units, limit, overlap):
            yield from self._fitted(title, chunk)

    def _fitted(self, title: str, units: Sequence[_Unit]) -> Iterator[str]:
        """One text, unless its parts make more tokens together than one by one: then two."""
        text = "".join(unit.text for unit in units).strip()
        if not text:
            return
        if self._count(self._whole(title, text)) <= self._most:
            yield text
        elif len(units) > 1:
            half = len(units) // 2
            yield from self._fitted(title, units[:half])
            yield from self._fitted(title, units[half:])
        else:
            half = len(text) // 2
            yield from self._fitted(title, [_Unit(text[:half], 0)])
            yield from self._fitted(title, [_Unit(text[half:], 0)])

    def _units(self, text: str, limit: int) -> list[_Unit]:
        """Sentences; those longer than a chunk as words, and words longer than a chunk in pieces."""
        return list(self._broken(_cut(text, _SENTENCES), limit, _WORDS))

    def _broken(self, pieces: Sequence[str], limit: int, finer: re.Pattern[str] | None) -> Iterator[_Unit]:
        for piece, tokens in zip(pieces, self._counter.count_tokens(pieces), strict=True):
            if tokens <= limit or len(piece) == 1:
                yield _Unit(piece, tokens)
            elif finer is not None:
                yield from self._broken(_cut(piece, finer), limit, None)
            else:
                # Halves of halves would count a long run of text over and over; a token is rarely less than a character.
                size = max(1, min(len(piece) // 2, limit))
                yield from self._broken([piece[start : start + size] for start in range(0, len(piece), size)], limit, None)

    def _whole(self, title: str, text: str) -> str:
        """What the encoder is given, as `CorpusPassage.contents` writes it."""
        return f'{self._prefix}"{title}"\n{text}'

    def _count(self, text: str) -> int:
        return self._counter.count_tokens([text])[0]


def _cut(text: str, at: re.Pattern[str]) -> list[str]:
    """The text in pieces that, joined, are the text."""
    ends = [match.end() for match in at.finditer(text)]
    return [piece for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if (piece := text[start:end])]


def _packed(units: Sequence[_Unit], limit: int, overlap: int) -> Iterator[list[_Unit]]:
    """As many units as fit, in turn; each chunk but the first begins with the last units of the one before, up to `overlap`."""
    chunk: list[_Unit] = []
    size = 0
    for unit in units:
        if chunk and size + unit.tokens > limit:
            yield chunk
            chunk = _tail(chunk, min(overlap, limit - unit.tokens))
            size = sum(each.tokens for each in chunk)
        chunk.append(unit)
        size += unit.tokens
    if chunk:
        yield chunk


def _tail(units: Sequence[_Unit], most: int) -> list[_Unit]:
    kept: list[_Unit] = []
    for unit in reversed(units):
        most -= unit.tokens
        if most < 0:
            break
        kept.insert(0, unit)
    return kept
