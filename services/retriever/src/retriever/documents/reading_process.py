"""Reads documents in a process of its own, so that a file can end, hang or fill that process and no other."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from retriever.documents.document import Document, Part, Unreadable
from retriever.documents.formats import Format

TIMEOUT_S = 60


class ReadingProcess:
    """Started with the first document; started again after one that ended it. A context manager."""

    def __init__(self, timeout_s: int = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path, expected: Format, name: str) -> Document:
        """Raises Unreadable, with the reason."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(orjson.dumps({"path": str(path), "format": expected, "name": name}) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            raise Unreadable(self._ended())
        answer = orjson.loads(line)
        if "unreadable" in answer:
            raise Unreadable(answer["unreadable"])
        parts = tuple(Part(**part) for part in answer.pop("parts"))
        return Document(**answer, parts=parts)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "retriever.documents.readers", str(self._timeout_s)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, close_fds=True
            )
        return self._process

    def _ended(self) -> str:
        code = self._process.wait(timeout=self._timeout_s) if self._process is not None else 0
        self.close()
        if code == -signal.SIGALRM:
            return f"takes longer than {self._timeout_s} s to read"
        return f"ended its reader (signal {-code})" if code < 0 else f"ended its reader (exit code {code})"

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
