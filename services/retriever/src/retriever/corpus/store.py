"""The corpus as an index keeps it: one JSON line per passage, and the byte offset of each line.

Both files are memory-mapped, so opening costs nothing and 21 million passages cost no more RAM than the pages in use.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import orjson

from parallelsearch.errors import IndexMismatch
from retriever.corpus.reading import CorpusPassage

PASSAGES_FILE = "passages.jsonl"
OFFSETS_FILE = "offsets.u64"
_OFFSET = np.dtype("<u8")


def offsets_bytes(passages: int) -> int:
    """How long `OFFSETS_FILE` is: one offset for each passage, and where the last one ends."""
    return (passages + 1) * _OFFSET.itemsize


class CorpusWriter:
    """Appends passages to a new store in `folder`; use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._passages = (folder / PASSAGES_FILE).open("wb")
        self._offsets = (folder / OFFSETS_FILE).open("wb")
        self._end = 0
        self.count = 0
        self._write_offset()

    def append(self, passage: CorpusPassage) -> None:
        fields = {"id": passage.id, "title": passage.title, "text": passage.text, "url": passage.url}
        metadata = {"metadata": dict(passage.metadata)} if passage.metadata else {}
        line = orjson.dumps(fields | metadata, option=orjson.OPT_APPEND_NEWLINE)
        self._passages.write(line)
        self._end += len(line)
        self.count += 1
        self._write_offset()

    def _write_offset(self) -> None:
        self._offsets.write(self._end.to_bytes(_OFFSET.itemsize, "little"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._passages.close()
        self._offsets.close()


class CorpusStore:
    """Random access to the passages of an index, by row."""

    def __init__(self, folder: Path) -> None:
        """Opens the store.

        Raises:
            IndexMismatch: the two files do not belong together.
        """
        with (folder / OFFSETS_FILE).open("rb") as file:
            self._mapped_offsets = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # A plain array: reading one number through np.memmap's own class costs ten times as much.
        self._offsets = np.frombuffer(self._mapped_offsets, _OFFSET)
        with (folder / PASSAGES_FILE).open("rb") as file:
            whole = os.fstat(file.fileno()).st_size
            # A file without a byte cannot be mapped.
            self._passages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if whole else None
        if int(self._offsets[-1]) != whole:
            raise IndexMismatch(
                f"{folder}: {OFFSETS_FILE} ends at byte {int(self._offsets[-1])}, {PASSAGES_FILE} at {whole}. "
                "Build the index again: parallelsearch index build."
            )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> CorpusPassage:
        """The passage of row 0 ≤ row < len. A negative row is an error, never the last passage."""
        if not 0 <= row < len(self) or self._passages is None:
            raise IndexError(row)
        fields = orjson.loads(self._passages[int(self._offsets[row]) : int(self._offsets[row + 1])])
        return CorpusPassage(fields["id"], fields["title"], fields["text"], fields["url"], fields.get("metadata", {}))

    def __iter__(self) -> Iterator[CorpusPassage]:
        return (self[row] for row in range(len(self)))

    def release(self) -> None:
        """Gives back the memory of what was read; it is read again from the files when it is asked for."""
        for mapped in (self._mapped_offsets, self._passages):
            if mapped is not None:
                mapped.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        if self._passages is not None:
            self._passages.close()
