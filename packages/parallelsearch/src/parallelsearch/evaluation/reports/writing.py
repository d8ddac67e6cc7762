"""Writes the reports of a run and of a comparison into a folder: `NAME.json`, `NAME.md`, `NAME.html`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from parallelsearch.evaluation.comparing import Comparison, Side, compare_modes, compare_sides
from parallelsearch.evaluation.metrics import METRICS
from parallelsearch.evaluation.plan import cells
from parallelsearch.evaluation.reports.comparison_sections import comparison_sections
from parallelsearch.evaluation.reports.markdown import render_markdown
from parallelsearch.evaluation.reports.page import render_page
from parallelsearch.evaluation.reports.page_data import Column, data_lines
from parallelsearch.evaluation.reports.plots import Named
from parallelsearch.evaluation.reports.sections import definitions, facts, run_sections
from parallelsearch.evaluation.reports.tables import Section
from parallelsearch.evaluation.store import RunFolder, write_durably
from parallelsearch.evaluation.summary import CellSummary, Summary, summarise, summarise_cell
from parallelsearch.evaluation.table import ALL, read_columns
from parallelsearch.evaluation.wire import RunModel
from parallelsearch.rollout.types import Mode

RUN, COMPARISON = "report", "comparison"


@dataclass(frozen=True, slots=True)
class Written:
    summary: Summary
    paths: tuple[Path, ...]


def write_run_report(folder: RunFolder, run: RunModel) -> Written:
    """Reports on what the folder holds, finished or not, with parallel against sequential where both were asked.

    Raises:
        InvalidInput: a file of the folder is broken.
    """
    summary, tables = summarise(folder, run)
    found = [compare_modes(run, tables, model, Mode.PARALLEL, Mode.SEQUENTIAL) for model in run.models or [""]]
    comparisons = [one for one in found if one]
    names = [one.name for one in run.sets]
    columns = [
        Column(label(mode, model), folder, tuple(cells(names, [mode], [model])))
        for model in run.models or [""]
        for mode in run.modes
    ]
    content = {
        "run": run.model_dump(mode="json"),
        "summary": _summary(summary),
        "comparisons": [_comparison(one) for one in comparisons],
    }
    named = [(label(cell.mode, cell.model), cell) for cell in summary.cells if cell.groups[ALL].n]
    paths = _write(
        folder.path, RUN, "Evaluation", content, run_sections(summary, comparisons), named, data_lines(columns, folder.questions())
    )
    return Written(summary, paths)


def write_comparison(folder: Path, a: Side, b: Side) -> tuple[Comparison, tuple[Path, ...]]:
    """Compares two sides and reports on it.

    Raises:
        InvalidInput: they have no question in common, or a file is broken.
    """
    comparison = compare_sides(a, b)
    folder.mkdir(parents=True, exist_ok=True)
    sections = [
        Section(f"A: {a.label}", (facts(a.run),)),
        Section(f"B: {b.label}", (facts(b.run),)),
        *comparison_sections(comparison),
        definitions(),
    ]
    questions = b.folder.questions() | a.folder.questions()
    named = [(side.label, cell) for side in (a, b) for cell in _summaries(side)]
    data = data_lines([Column(side.label, side.folder, side.cells) for side in (a, b)], questions)
    content = {"a": a.run.model_dump(mode="json"), "b": b.run.model_dump(mode="json"), "comparison": _comparison(comparison)}
    return comparison, _write(folder, COMPARISON, f"{a.label} against {b.label}", content, sections, named, data)


def label(mode: Mode, model: str) -> str:
    return " · ".join(part for part in (mode.value, model) if part)


def _summaries(side: Side) -> list[CellSummary]:
    questions = side.folder.questions()
    tables = ((cell, read_columns(side.folder, cell, questions)) for cell in side.cells)
    return [summarise_cell(cell, columns, len(columns)) for cell, columns in tables if len(columns)]


def _summary(summary: Summary) -> dict[str, object]:
    return {
        "cells": [{key: value for key, value in asdict(cell).items() if key != "points"} for cell in summary.cells],
        "macro_means": summary.macro_means,
        "sets_of_the_paper_not_asked": summary.not_asked,
    }


def _comparison(comparison: Comparison) -> dict[str, object]:
    return {key: value for key, value in asdict(comparison).items() if key not in {"run_a", "run_b"}}


def _write(
    folder: Path,
    name: str,
    title: str,
    content: Mapping[str, object],
    sections: Sequence[Section],
    named: Sequence[Named],
    data: Iterable[str],
) -> tuple[Path, ...]:
    json, markdown, html = (folder / f"{name}.{ending}" for ending in ("json", "md", "html"))
    metrics = {metric.name: {"unit": metric.unit, "definition": metric.definition, "source": metric.source} for metric in METRICS}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    write_durably(json, orjson.dumps({**content, "metrics": metrics}, option=options))
    write_durably(markdown, render_markdown(title, sections).encode())
    with html.open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(render_page(title, sections, named, data))
    return json, markdown, html
