"""What a report says of two sides on the same questions."""

from __future__ import annotations

from collections.abc import Iterable

from parallelsearch.evaluation.comparing import Compared, Comparison
from parallelsearch.evaluation.metrics import BY_NAME, Unit
from parallelsearch.evaluation.reports import numbers
from parallelsearch.evaluation.reports.tables import Section, Table
from parallelsearch.evaluation.statistics import Interval, PairedDifference


def comparison_sections(comparison: Comparison) -> list[Section]:
    """A against B: exact match, then everything else, on the same questions."""
    opening = [f"A is {comparison.a}, B is {comparison.b}; the same questions, paired."]
    if comparison.unpaired:
        opening.append(f"{comparison.unpaired} questions were answered by one side only and are left out.")
    if comparison.differing:
        opening.append(f"The two runs differ in {', '.join(comparison.differing)}.")
    title = f"{comparison.a} against {comparison.b}"
    return [
        Section(f"{title}: exact match", (*opening, exact_match_table(comparison.rows))),
        Section(f"{title}: effort", (effort_table(comparison.rows),)),
        *(Section(f"{title}: {row.set_name}, all metrics", (difference_table(row),)) for row in comparison.rows[:1]),
    ]


def exact_match_table(rows: Iterable[Compared]) -> Table:
    header = ("set", "group", "n", "A, %", "B, %", "A − B", "only A right", "only B right", "McNemar p", "odds ratio", "Cohen's h")
    found = []
    for row in rows:
        pair, test = row.metrics["exact_match"], row.exact_match
        values = (
            *_sides(Unit.SHARE, pair),
            str(test.only_a),
            str(test.only_b),
            numbers.p_value(test.p),
            numbers.number(Unit.COUNT, test.odds_ratio),
            f"{row.exact_match_effect:.2f}",
        )
        found.append((row.set_name, row.group, str(row.n), *values))
    return Table(header, tuple(found))


def effort_table(rows: Iterable[Compared]) -> Table:
    header = ("set", "group", "n", "LLM calls A", "B", "A / B", "p50 A, s", "B, s", "A / B", "p95 A, s", "B, s", "A / B")
    found = []
    for row in rows:
        calls = row.metrics["llm_calls"]
        cells = [*_ratio(Unit.COUNT, calls.a, calls.b, calls.relative, calls.relative_interval)]
        for clock in row.wall_clock.values():
            cells += _ratio(Unit.MILLISECONDS, clock.a, clock.b, clock.relative, clock.interval)
        found.append((row.set_name, row.group, str(row.n), *cells))
    return Table(header, tuple(found))


def difference_table(row: Compared) -> Table:
    header = ("metric", "A", "B", "A − B", "p", "A / B", "Cohen's d", "better")
    found = []
    for name, pair in row.metrics.items():
        metric = BY_NAME[name]
        values = (
            numbers.p_value(pair.p),
            numbers.number(Unit.VALUE, pair.relative),
            numbers.number(Unit.COUNT, pair.effect),
            numbers.verdict(metric, pair),
        )
        found.append((numbers.name_with_unit(metric), *_sides(metric.unit, pair), *values))
    return Table(header, tuple(found))


def _sides(unit: Unit, pair: PairedDifference) -> tuple[str, str, str]:
    """A, B, and A − B with its interval."""
    bounds = numbers.interval(unit, pair.interval.low, pair.interval.high) if pair.interval else ""
    return numbers.number(unit, pair.a), numbers.number(unit, pair.b), f"{numbers.number(unit, pair.difference)} {bounds}".strip()


def _ratio(unit: Unit, a: float, b: float, relative: float | None, bounds: Interval | None) -> tuple[str, str, str]:
    """A, B, and A / B with its interval."""
    written = numbers.interval(Unit.VALUE, bounds.low, bounds.high) if bounds else ""
    return numbers.number(unit, a), numbers.number(unit, b), f"{numbers.number(Unit.VALUE, relative)} {written}".strip()
