"""The note on the twins, out of what twins.sh compared: parallel (A) against sequential (B), paired question by question.

    python benchmarks/twins.py COMPARED … [--alone ROUND …] --out docs/results [--machine TEXT] [--note TEXT]

COMPARED is a folder of `parallelsearch eval compare`, ROUND one that holds the two runs `parallel` and `sequential`, one rollout
at a time: what is said of time is over all rounds together. Writes evaluation_twins.json and evaluation_twins.md. No question and
no passage stands in them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from parallelsearch.evaluation.comparing import compare_tables, read_side
from parallelsearch.evaluation.metrics import BY_NAME, Unit
from parallelsearch.evaluation.reports import numbers
from parallelsearch.evaluation.reports.markdown import render_markdown
from parallelsearch.evaluation.reports.tables import Section, Table
from parallelsearch.evaluation.table import Columns, read_columns

METRICS = (
    "exact_match", "decomposed", "llm_calls", "search_rounds", "sub_queries", "dropped", "completion_tokens", "prompt_tokens",
    "evidence_found", "well_formed",
)  # fmt: skip
CLOCK = "p50"
DIGITS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compared", nargs="+", type=Path)
    parser.add_argument("--alone", nargs="*", type=Path, default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--machine", default="", help="what ran it, and whether it was quiet")
    parser.add_argument("--note", default="", help="anything else that a reader must know")
    given = parser.parse_args()
    compared = {folder.name: read(folder) for folder in given.compared}
    told = {
        "machine": given.machine or next(iter(compared.values()))["a"]["machine"],
        "note": given.note,
        "runs": {name: {side: facts(one[side]) for side in ("a", "b")} for name, one in compared.items()},
        "groups": {name: [figures(row) for row in rows_of(one)] for name, one in compared.items()},
        "alone": clock(given.alone) if given.alone else None,
    }
    (given.out / "evaluation_twins.json").write_text(json.dumps(told, indent=1) + "\n")
    (given.out / "evaluation_twins.md").write_text(page(told))


def read(folder: Path) -> dict:
    return json.loads((folder / "comparison.json").read_text())


def rows_of(one: dict) -> list[dict]:
    """All but those by type: twins.sh makes a set of each type that is told apart."""
    return [row for row in one["comparison"]["rows"] if not row["group"].startswith("type ")]


def facts(run: dict) -> dict:
    names = ("started_at", "commit", "concurrency", "modes", "limits")
    index = {name: run["stack"][name] for name in ("model", "layout", "turn_tokens", "context_tokens", "index", "passages")}
    return {**{name: run[name] for name in names}, **index, "asked": {one["name"]: one["asked"] for one in run["sets"]}}


def figures(row: dict) -> dict:
    found = {name: pair for name in METRICS if (pair := row["metrics"].get(name))}
    return {
        "set": row["set_name"],
        "group": row["group"],
        "n": row["n"],
        "mcnemar_p": round(row["exact_match"]["p"], DIGITS),
        "metrics": {name: sides(pair) for name, pair in found.items()},
    }


def sides(pair: dict) -> dict:
    between = pair["interval"]
    return {
        **{name: round(pair[name], DIGITS) for name in ("a", "b", "difference")},
        "interval": [round(between[bound], DIGITS) for bound in ("low", "high")],
    }


def clock(rounds: list[Path]) -> dict:
    """Milliseconds of an answer, and A / B of the median and of the mean, over all rounds."""
    a, b = (side_of([folder / mode for folder in rounds]) for mode in ("parallel", "sequential"))
    rows, _ = compare_tables(a, b)
    pooled = asdict(rows[0])
    median, mean = pooled["wall_clock"][CLOCK], pooled["metrics"]["total_ms"]
    return {
        "n": pooled["n"],
        "median": {**{side: round(median[side], 1) for side in ("a", "b")}, **ratio(median["relative"], median["interval"])},
        "mean": {**{side: round(mean[side], 1) for side in ("a", "b")}, **ratio(mean["relative"], mean["relative_interval"])},
        "difference_of_means": sides(mean),
    }


def side_of(runs: list[Path]) -> dict[str, Columns]:
    """What one side measured, by round and set."""
    found = {}
    for side in (read_side(str(run)) for run in runs):
        questions = side.folder.questions()
        found |= {
            f"{side.folder.path.parent.name} {cell.set_name}": read_columns(side.folder, cell, questions) for cell in side.cells
        }
    return found


def ratio(value: float, between: dict) -> dict:
    return {"ratio": round(value, DIGITS), "interval": [round(between[bound], DIGITS) for bound in ("low", "high")]}


def page(told: dict) -> str:
    a, b = (next(iter(told["runs"].values()))[side] for side in ("a", "b"))
    limits = a["limits"]
    how = f"{a['concurrency']} rollouts at once, greedy, at most {limits['max_turns']} searches of {limits['top_k']} passages"
    opening = (
        f"benchmarks/twins.sh, {a['started_at']}, commit {a['commit']}, {told['machine']}. A is {a['model']} in mode "
        f"{a['modes'][0]}, B is {b['model']} in mode {b['modes'][0]}; {how}, an index of {a['passages']} passages. Each cell: A, "
        "B, A − B [95 % interval, paired bootstrap]."
    )
    sections = [Section("What was measured", tuple(part for part in (opening, told["note"]) if part))]
    sections += [Section(name.capitalize(), (quality(groups),)) for name, groups in told["groups"].items()]
    if told["alone"]:
        sections.append(Section("One rollout at a time, comparisons", (times(told["alone"]),)))
    return render_markdown("A policy that searches in parallel against its sequential twin", sections)


def quality(groups: list[dict]) -> Table:
    header = ("set", "group", "n", *(numbers.name_with_unit(BY_NAME[name]) for name in METRICS), "McNemar p")
    rows = [
        (
            group["set"],
            group["group"],
            str(group["n"]),
            *(cell(name, group["metrics"].get(name)) for name in METRICS),
            numbers.p_value(group["mcnemar_p"]),
        )
        for group in groups
    ]
    return Table(header, tuple(rows))


def cell(name: str, pair: dict | None) -> str:
    if pair is None:
        return numbers.NOTHING
    unit = BY_NAME[name].unit
    a, b, difference = (numbers.number(unit, pair[side]) for side in ("a", "b", "difference"))
    return f"{a}, {b}, {difference} {numbers.interval(unit, *pair['interval'])}"


def times(told: dict) -> Table:
    rows = []
    for name in ("median", "mean"):
        one = told[name]
        seconds = [numbers.number(Unit.MILLISECONDS, one[side]) for side in ("a", "b")]
        bounds = numbers.interval(Unit.VALUE, *one["interval"])
        rows.append((name, str(told["n"]), *seconds, f"{numbers.number(Unit.VALUE, one['ratio'])} {bounds}"))
    return Table(("an answer", "n", "A, s", "B, s", "A / B"), tuple(rows))


if __name__ == "__main__":
    main()
