"""Text of policies, passages and servers as something to look at: no markup, no control sequences."""

from __future__ import annotations

import re

from rich.text import Text

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_BIDI = frozenset(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))


def clean(text: str) -> str:
    """Without what a terminal would act on; line breaks stay, other characters that cannot be shown go."""
    bare = _ESCAPES.sub("", text).expandtabs(4).encode("utf-8", "replace").decode()
    return "".join(character for character in bare if character == "\n" or (character.isprintable() and character not in _BIDI))


def plain(text: str, style: str = "") -> Text:
    return Text(clean(text), style)


def one_line(text: str, width: int) -> str:
    """White space collapsed, cut to `width` characters."""
    bare = " ".join(clean(text).split())
    return bare if len(bare) <= width else bare[: max(0, width - 1)] + "…"
