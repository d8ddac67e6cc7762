"""A report in Markdown. What others wrote (ids, names, faults) is escaped, so that it cannot break a table or carry markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parallelsearch.evaluation.reports.tables import Section, Table

_ACTIVE = re.compile(r"([\\`*_<>|#])|(?<=\])(\()")


def render_markdown(title: str, sections: Iterable[Section]) -> str:
    lines = [f"# {escape(title)}", ""]
    for section in sections:
        lines += [f"## {escape(section.title)}", ""]
        for part in section.parts:
            lines += [*(_table(part) if isinstance(part, Table) else [escape(part)]), ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Brackets stay, as intervals are written in them; what would make a link of them does not."""
    return _ACTIVE.sub(r"\\\g<0>", " ".join(text.split()))


def _table(table: Table) -> list[str]:
    if not table.rows:
        return ["Nothing."]
    return [_row(table.header), _row(["---"] * len(table.header)), *map(_row, table.rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell if cell == '---' else escape(cell) for cell in cells)} |"
