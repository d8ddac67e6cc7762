"""The new whole lines of a file that others append to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20
LONGEST_LINE = 1 << 24


@dataclass(slots=True)
class Tail:
    """Reads on from where it was; a line that is still being written waits. One longer than `LONGEST_LINE` bytes is left out."""

    path: Path
    offset: int = 0
    _rest: bytes = b""

    @property
    def is_cut(self) -> bool:
        """Whether the file is shorter than what was read of it: it is another one now."""
        return self.path.is_file() and self.path.stat().st_size < self.offset

    def lines(self) -> Iterator[bytes]:
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while part := file.read(CHUNK):
                self.offset += len(part)
                *whole, rest = (self._rest + part).split(b"\n")
                self._rest = rest if len(rest) <= LONGEST_LINE else b""
                yield from whole
