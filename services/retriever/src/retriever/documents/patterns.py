"""Patterns for the names of documents: `*` stands for anything, and every other character for itself.

`[*]`, `[?]` and `[[]` stand for the character within, so that any name can be written as a pattern that means it alone.
"""

from __future__ import annotations

import re

_TOKENS = re.compile(r"\[([*?\[])\]|(\*)|([^*\[]+|\[)")


def literally(name: str) -> str:
    """A pattern that means this name alone."""
    return "".join(f"[{character}]" if character in "*[" else character for character in name)


def matches(name: str, pattern: str) -> bool:
    first, *rest = _pieces(pattern)
    if not rest:
        return name == first
    if not name.startswith(first):
        return False
    *middle, last = rest
    at = len(first)
    for piece in middle:  # each where it first fits: what is left is the longest
        found = name.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(name) - at >= len(last) and name.endswith(last)


def _pieces(pattern: str) -> list[str]:
    """What stands between the stars."""
    pieces = [""]
    for token in _TOKENS.finditer(pattern):
        if token[2]:
            pieces.append("")
        else:
            pieces[-1] += token[1] or token[3]
    return pieces
