"""One Markdown page over all recipes: what each found, with n and intervals, from their report.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

COLUMNS = {
    "exact_match": ("EM, %", 100),
    "f1": ("F1, %", 100),
    "llm_calls": ("LLM calls", 1),
    "sub_queries": ("sub-queries", 1),
    "evidence_found": ("evidence found, %", 100),
    "wrong_although_evidence": ("wrong although evidence, %", 100),
    "decomposed": ("decomposed, %", 100),
    "decomposition_accuracy": ("decomposition accuracy, %", 100),
    "shape_right": ("shape right, %", 100),
}


def write_summary(out: Path, names: Iterable[str]) -> None:
    """Writes `summary.md`; recipes that did not come to a report are named."""
    lines = ["# Experiments", "", "In brackets: 95 % bootstrap intervals. One table a recipe; details in its report.", ""]
    for name in names:
        path = out / name / "report.json"
        lines += [f"## {name}", ""]
        lines += _recipe(json.loads(path.read_text())) if path.exists() else ["Not run: no time was left."]
        lines.append("")
    lines += _latency(out / "latency.json")
    (out / "summary.md").write_text("\n".join(lines) + "\n")


def _recipe(report: dict) -> list[str]:
    run = report["run"]
    stack, limits = run["stack"], run["limits"]
    facts = f"{stack['corpus']} corpus of {stack['passages']} passages, top_k {limits['top_k']}, {run['concurrency']} at once"
    lines = [
        f"{facts}. {run['note']}",
        "",
        _line(["set", "mode", "group", "n", *(title for title, _ in COLUMNS.values()), "p50, s", "p95, s"]),
    ]
    lines.append(_line(["---"] * (len(COLUMNS) + 6)))
    for cell in report["summary"]["cells"]:
        for group in list(cell["groups"].values())[: 1 if len(cell["groups"]) == 2 else None]:
            if group["n"]:
                values = [_value(group["metrics"][metric], scale) for metric, (_, scale) in COLUMNS.items()]
                clock = [_value(group["quantiles"][label], 0.001) for label in ("p50", "p95")]
                lines.append(_line([cell["set_name"], cell["mode"], group["name"], str(group["n"]), *values, *clock]))
    for comparison in report["comparisons"]:
        lines += ["", f"{comparison['a']} (A) against {comparison['b']} (B), paired:", ""]
        lines.append(_line(["set", "group", "n", "EM A − B", "McNemar p", "LLM calls A / B", "p50 A / B"]))
        lines.append(_line(["---"] * 7))
        for row in comparison["rows"]:
            match, calls, clock = row["metrics"]["exact_match"], row["metrics"].get("llm_calls"), row["wall_clock"].get("p50")
            difference = (
                f"{100 * match['difference']:.1f} [{100 * match['interval']['low']:.1f}, {100 * match['interval']['high']:.1f}]"
            )
            lines.append(_line([row["set_name"], row["group"], str(row["n"]), difference, f"{row['exact_match']['p']:.3f}",
                                _ratio(calls, "relative_interval"), _ratio(clock, "interval")]))  # fmt: skip
    return lines


def _value(estimate: dict, scale: float) -> str:
    if estimate["value"] is None:
        return "–"
    digits = 1 if scale == 100 else 2
    shown = f"{scale * estimate['value']:.{digits}f}"
    return (
        shown
        if estimate["low"] is None
        else f"{shown} [{scale * estimate['low']:.{digits}f}, {scale * estimate['high']:.{digits}f}]"
    )


def _ratio(found: dict | None, interval: str) -> str:
    if not found or found["relative"] is None:
        return "–"
    bounds = found[interval]
    return f"{found['relative']:.3f} [{bounds['low']:.3f}, {bounds['high']:.3f}]" if bounds else f"{found['relative']:.3f}"


def _latency(path: Path) -> list[str]:
    if not path.exists():
        return []
    rows = json.loads(path.read_text())
    lines = ["## latency", "", "Medians in milliseconds; one caller, first turns dictated.", ""]
    lines += [_line(list(rows[0])), _line(["---"] * len(rows[0]))]
    return lines + [_line([f"{value:.1f}" if isinstance(value, float) else str(value) for value in row.values()]) for row in rows]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
