"""The YAML block that may open a Markdown file: title, date, url and free metadata."""

from __future__ import annotations

from datetime import date
from typing import Any

import yaml

_FENCE = "---"
_MOST_CHARACTERS = 20_000


def take_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Scalars and lists of scalars by name, and the text behind the block; nothing where there is no well-formed one."""
    lines = text.split("\n", 1)
    if lines[0].strip() != _FENCE or len(lines) == 1:
        return {}, text
    block, fence, rest = lines[1].partition(f"\n{_FENCE}")
    if not fence or len(block) > _MOST_CHARACTERS or (rest and not rest.startswith(("\n", " ", "\r"))):
        return {}, text
    try:
        found = yaml.safe_load(block)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(found, dict):
        return {}, text
    return {str(name): value for name, given in found.items() if (value := _scalar(given))}, rest.lstrip("\r\n ")


def _scalar(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return ", ".join(str(each) for each in value if isinstance(each, str | int | float))
    return ""
