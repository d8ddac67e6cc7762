"""Phases of a long start: each says when it begins and ends, and gives a sign of life in between."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BEAT_S = 5.0
Say = Callable[[str], None]


def say(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"[policy] {text}\n")
    sys.stderr.flush()


@contextmanager
def phase(title: str, say: Say = say, beat_s: float = BEAT_S) -> Iterator[None]:
    """Says `title`, then every `beat_s` seconds how long it has been, then that it is done. A failure is left to speak itself."""
    started, done = time.monotonic(), threading.Event()

    def beat() -> None:
        while not done.wait(beat_s):
            say(f"{title} … {time.monotonic() - started:.0f} s")

    say(title)
    thread = threading.Thread(target=beat, name="phase", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    say(f"{title}: done in {time.monotonic() - started:.1f} s")
