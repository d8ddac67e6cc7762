"""Says on standard error what a long step is doing, at least every few seconds, with rate and remaining time."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

BEAT_S = 5.0


class Progress:
    """One step, as a context manager: a line at its start, one every five seconds, one at its end."""

    def __init__(self, title: str, total: int | None = None, done: int = 0, *, what: str = "passages") -> None:
        self._title, self._total, self._what = title, total, what
        self._done = self._done_before = done
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="progress", daemon=True)

    def advance(self, steps: int = 1) -> None:
        self._done += steps

    def __enter__(self) -> Self:
        say(f"{self._title} …")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        if error is None:
            say(f"{self._title}: done in {readable(time.monotonic() - self._started)}{self._rate()}")

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            say(f"{self._title}: {self._state()}")

    def _rate(self) -> str:
        done, elapsed = self._done - self._done_before, time.monotonic() - self._started
        return f", {done:,} {self._what}, {done / elapsed:,.0f}/s" if done and elapsed > 0 else ""

    def _state(self) -> str:
        elapsed = time.monotonic() - self._started
        if not self._done:
            return f"none of {self._total:,} {self._what} yet, {readable(elapsed)}" if self._total else readable(elapsed)
        rate = (self._done - self._done_before) / elapsed
        if self._total is None:
            return f"{self._done:,} {self._what}, {rate:,.0f}/s"
        left = f", {readable((self._total - self._done) / rate)} left" if rate else ""
        return f"{self._done:,} of {self._total:,} {self._what}, {rate:,.0f}/s{left}"


def say(text: str) -> None:
    sys.stderr.write(f"[index] {text}\n")
    sys.stderr.flush()


def readable(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"
