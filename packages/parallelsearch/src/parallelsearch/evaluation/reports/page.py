"""The HTML page of a report: one file, no network, everything that others wrote escaped. Written as a stream."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from parallelsearch.evaluation.reports import plots
from parallelsearch.evaluation.reports.plots import Named
from parallelsearch.evaluation.reports.tables import Section, Table

LONG_CELL = 60

EXPLORER = """<h2>Trajectories side by side</h2>
<div id="controls">
<label>left<select id="left"></select></label><label>right<select id="right"></select></label>
<label>set<select id="set"></select></label><label>kind<select id="kind"></select></label>
<label>which<select id="which"><option value="">all</option><option value="differ">only one is right</option>
<option value="wrong">one or both wrong</option></select></label>
<label>words<input type="search" id="words"></label></div>
<p class="meta" id="count"></p><div id="questions"></div><div id="asked"></div><div id="sides"></div>
"""


def render_page(title: str, sections: Sequence[Section], cells: Sequence[Named], data: Iterable[str]) -> Iterator[str]:
    """The page piece by piece: tables, plots, then the trajectories of `data` (see `page_data`)."""
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(title)}</title>\n<style>{_file('page.css')}</style></head><body>\n<h1>{escape(title)}</h1>\n"
    opening, *rest = sections
    yield from _section(opening)
    yield from _figures(cells)
    yield EXPLORER
    for section in rest:
        yield from _section(section)
    yield '<script type="application/x-ndjson" id="data">'
    for number, line in enumerate(data):
        yield f"{chr(10) if number else ''}{line}"
    yield f"</script>\n<script>{script}</script>\n</body></html>\n"


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _figures(cells: Sequence[Named]) -> Iterator[str]:
    if not cells:
        return
    by_set: dict[str, list[Named]] = {}
    for label, cell in cells:
        by_set.setdefault(cell.set_name, []).append((label, cell))
    drawn = (
        ("Share of the questions that were done after so many LLM calls, by kind.", plots.turn_panels(by_set)),
        ("Exact match by kind, with 95 % intervals.", plots.exact_match_panels(by_set)),
        ("Latency and reward.", [plots.latency_panel(cells), plots.reward_panel(cells)]),
    )
    yield "<h2>Plots</h2>\n"
    for caption, panels in drawn:
        yield f"<figure>{plots.draw(panels)}<figcaption>{escape(caption)}</figcaption></figure>\n"


def _section(section: Section) -> Iterator[str]:
    yield f"<h2>{escape(section.title)}</h2>\n"
    for part in section.parts:
        yield _table(part) if isinstance(part, Table) else f"<p>{escape(part)}</p>\n"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n'


def _cell(text: str) -> str:
    return f'<td class="long">{escape(text)}</td>' if len(text) > LONG_CELL else f"<td>{escape(text)}</td>"
