"""The content of a report as sections, tables and paragraphs, which Markdown and HTML both render: written once, shown twice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    parts: tuple[str | Table, ...]
