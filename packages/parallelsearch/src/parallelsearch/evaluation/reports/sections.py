"""What the report of a run says, section by section."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parallelsearch.evaluation.comparing import Comparison
from parallelsearch.evaluation.metrics import (
    BY_NAME,
    COST,
    DECOMPOSITION,
    EFFORT,
    EVIDENCE,
    METRICS,
    PROTOCOL,
    REWARD,
    Metric,
    Unit,
)
from parallelsearch.evaluation.reports import numbers
from parallelsearch.evaluation.reports.comparison_sections import comparison_sections
from parallelsearch.evaluation.reports.tables import Section, Table
from parallelsearch.evaluation.summary import CellSummary, Group, Summary
from parallelsearch.evaluation.table import ALL
from parallelsearch.evaluation.wire import RunModel

INTERVALS = "In brackets: 95 % bootstrap intervals."
NOT_QUOTABLE = "Scores on cut-down sets are no scores on the published benchmarks."
MAIN = ("exact_match", "f1", "cover_match", "llm_calls", "sub_queries")
KINDS = ("exact_match", "llm_calls", "sub_queries", "decomposed", "evidence_found", "wrong_although_evidence")


def run_sections(summary: Summary, comparisons: Sequence[Comparison]) -> list[Section]:
    """What the report of a run says."""
    return [
        Section("What was measured", (facts(summary.run, summary.not_asked), *warnings(summary))),
        Section("Results", (main_table(summary), INTERVALS, *macro_table(summary), NOT_QUOTABLE)),
        Section("By kind of question", (group_table(summary.cells, KINDS), INTERVALS)),
        Section("Effort and cost", (metric_table(summary.cells, (*EFFORT, *COST)),)),
        Section("Evidence", (metric_table(summary.cells, EVIDENCE),)),
        Section("Decomposition, apart from the answer", (group_table(summary.cells, [one.name for one in DECOMPOSITION]),)),
        Section("Protocol and stop reasons", (metric_table(summary.cells, PROTOCOL), stop_table(summary.cells))),
        Section("Reward", (metric_table(summary.cells, REWARD),)),
        *(section for comparison in comparisons for section in comparison_sections(comparison)),
        definitions(),
    ]


def facts(run: RunModel, not_asked: Sequence[str] = ()) -> Table:
    """Everything one must know to trust or to repeat the run."""
    stack, limits = run.stack, run.limits
    rows = [
        ("asked through", stack.through),
        ("model", " ".join(part for part in (stack.model, stack.version and f"version {stack.version}") if part)),
        ("layout", stack.layout),
        ("context and turn, tokens", " · ".join(str(one) for one in (stack.context_tokens, stack.turn_tokens) if one)),
        (
            "index",
            " · ".join(
                part for part in (stack.index, stack.encoder, f"{stack.passages:,} passages" if stack.passages else "") if part
            ),
        ),
        ("corpus", stack.corpus),
        ("cache", stack.cache),
        ("top_k · searches · sub-queries at most", f"{limits.top_k} · {limits.max_turns} · {limits.max_sub_queries}"),
        ("temperature · seed · deadline", f"{limits.temperature:g} · {limits.seed} · {limits.deadline_s:g} s"),
        ("rollouts at once", str(run.concurrency)),
        ("machine", run.machine),
        ("started", run.started_at),
        ("commit", run.commit),
        ("note", run.note),
        *(_set_fact(one.name, one.source, one.sha256, one.rows, one.asked, one.left_out, one.faults) for one in run.sets),
    ]
    if not_asked:
        rows.append(("sets of the paper that were not asked", ", ".join(not_asked)))
    return Table(("", ""), tuple((name, value) for name, value in rows if value))  # fmt: skip


def _set_fact(
    name: str, source: str, sha256: str, rows: int, asked: int, left_out: dict[str, int], faults: Sequence[str]
) -> tuple[str, str]:
    parts = [f"{asked} of {rows} asked", *(f"{count} {reason}" for reason, count in left_out.items())]
    if faults:
        parts.append(f"{len(faults)} could not be read")
    return f"set {name}", f"{'; '.join(parts)} ({source}, sha256 {sha256[:12]})"


def warnings(summary: Summary) -> list[str]:
    """What a reader should know before the numbers; nothing where all is well."""
    found = [f"Could not be read: {fault}" for one in summary.run.sets for fault in one.faults]
    for cell in summary.cells:
        if cell.missing:
            found.append(f"{cell.cell}: {cell.missing} questions have no trajectory yet; the run is not finished.")
        if len(cell.answered_by) > 1:
            found.append(f"{cell.cell}: answered by {len(cell.answered_by)} stacks: {'; '.join(cell.answered_by)}.")
        failed = {name: n for name, n in cell.groups[ALL].stop_reasons.items() if name.endswith("_failed") or name == "deadline"}
        if failed:
            said = ", ".join(f"{n} {name}" for name, n in failed.items())
            found.append(f"{cell.cell}: {said}; these count as wrong.")
    return found


def _head(cell: CellSummary) -> tuple[str, ...]:
    return cell.set_name, " · ".join(part for part in (cell.mode.value, cell.model) if part)


def _value(group: Group, metric: Metric) -> str:
    return numbers.estimate(metric.unit, group.metrics[metric.name])


def main_table(summary: Summary) -> Table:
    chosen = [BY_NAME[name] for name in MAIN]
    rows = []
    for cell in summary.cells:
        group = cell.groups[ALL]
        clock = [numbers.estimate(Unit.MILLISECONDS, group.quantiles[label]) for label in ("p50", "p95")]
        rows.append((*_head(cell), str(group.n), *(_value(group, metric) for metric in chosen), *clock))
    return Table(("set", "mode", "n", *map(numbers.name_with_unit, chosen), "p50, s", "p95, s"), tuple(rows))


def macro_table(summary: Summary) -> list[Table]:
    if not summary.macro_means:
        return []
    rows = [
        (" · ".join(part for part in (one.mode.value, one.model) if part), str(one.sets), str(one.exact_match.n),
         numbers.estimate(Unit.SHARE, one.exact_match))
        for one in summary.macro_means
    ]  # fmt: skip
    return [Table(("mode", "sets", "n", "Exact match, %, mean of the sets"), tuple(rows))]


def group_table(cells: Iterable[CellSummary], names: Sequence[str]) -> Table:
    chosen = [BY_NAME[name] for name in names]
    rows = [
        (*_head(cell), group.name, str(group.n), *(_value(group, metric) for metric in chosen))
        for cell in cells
        for group in cell.groups.values()
        if group.name != ALL or len(cell.groups) > 2
    ]
    return Table(("set", "mode", "group", "n", *map(numbers.name_with_unit, chosen)), tuple(rows))


def metric_table(cells: Iterable[CellSummary], chosen: Sequence[Metric]) -> Table:
    rows = [(*_head(cell), str(cell.groups[ALL].n), *(_value(cell.groups[ALL], metric) for metric in chosen)) for cell in cells]
    return Table(("set", "mode", "n", *map(numbers.name_with_unit, chosen)), tuple(rows))


def stop_table(cells: Sequence[CellSummary]) -> Table:
    reasons = sorted({reason for cell in cells for reason in cell.groups[ALL].stop_reasons})
    rows = [(*_head(cell), *(str(cell.groups[ALL].stop_reasons.get(reason, 0)) for reason in reasons)) for cell in cells]
    return Table(("set", "mode", *reasons), tuple(rows))


def definitions() -> Section:
    rows = tuple((metric.title, metric.definition, metric.source) for metric in METRICS)
    notes = (
        "Intervals and p values: percentile bootstrap over questions, 2,000 draws, paired where two sides are compared (Efron and "
        "Tibshirani 1993); McNemar's exact test for exact match. No correction for the number of tests."
    )
    return Section("Definitions", (Table(("metric", "definition", "source"), rows), notes))
