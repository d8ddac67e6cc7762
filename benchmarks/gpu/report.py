"""What a run of the exact search benchmark measured, written as JSON and as a Markdown table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

TARGETS = {1: 1.1, 4: 1.1, 16: 1.1, 64: 1.1, 128: 1.5, 256: 2.2}
EIGHT_BIT_TARGET = 0.6


@dataclass(frozen=True)
class Row:
    """One engine at one batch and top k. `floor` is its time over the time to read the fp16 vectors once in the same run."""

    engine: str
    batch: int
    top_k: int
    ms: float
    floor: float
    target: float | None


@dataclass
class Report:
    card: dict[str, str]
    rows_in_index: int
    dimension: int
    read_fp16_ms: float
    rows: list[Row] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    def add(self, engine: str, batch: int, top_k: int, ms: float) -> None:
        row = Row(engine, batch, top_k, round(ms, 3), round(ms / self.read_fp16_ms, 3), _target(engine, batch, top_k))
        self.rows.append(row)
        print(json.dumps(asdict(row)), flush=True)

    def note(self, name: str, value: object) -> None:
        self.notes[name] = value
        print(json.dumps({name: value}), flush=True)

    def joined(self, earlier: dict[str, Any]) -> Report:
        """With what an earlier run measured of other engines, each over the reading time of its own run."""
        measured = {row.engine for row in self.rows}
        kept = [Row(**row) for row in earlier["rows"] if row["engine"] not in measured]
        of_run = {**earlier["card"], "read_fp16_ms": earlier["read_fp16_ms"]}
        order = list(dict.fromkeys(row["engine"] for row in earlier["rows"]))
        sources = {f"{engine}_measured_by": of_run for engine in dict.fromkeys(row.engine for row in kept)}
        rows = sorted(kept + self.rows, key=lambda row: order.index(row.engine) if row.engine in order else len(order))
        return replace(self, rows=rows, notes=sources | earlier["notes"] | self.notes)

    def write(self, folder: Path, name: str, earlier: Path | None = None) -> None:
        whole = self.joined(json.loads(earlier.read_text())) if earlier and earlier.is_file() else self
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(asdict(whole), indent=1) + "\n")
        (folder / f"{name}.md").write_text(to_markdown(whole))


def to_markdown(report: Report) -> str:
    engines = list(dict.fromkeys(row.engine for row in report.rows))
    cells = {(row.engine, row.batch, row.top_k): f"{row.ms:.2f} ({row.floor:.2f})" for row in report.rows}
    lines = [
        f"{report.card['card']}, {report.card['date']}, torch {report.card['torch']}: {report.rows_in_index:,} × "
        f"{report.dimension} vectors; reading them once in fp16 takes {report.read_fp16_ms:.2f} ms (torch.sum over the tensor).",
        "",
        "Milliseconds from queries on the host to results on the host, median; in brackets, over that reading time.",
        "",
        "| batch | top k | " + " | ".join(engines) + " |",
        "|---|---|" + "---|" * len(engines),
    ]
    for batch, top_k in dict.fromkeys((row.batch, row.top_k) for row in report.rows):
        found = " | ".join(cells.get((engine, batch, top_k), "") for engine in engines)
        lines.append(f"| {batch} | {top_k} | {found} |")
    lines += ["", *(f"- {name}: {json.dumps(value)}" for name, value in report.notes.items()), ""]
    return "\n".join(lines)


def _target(engine: str, batch: int, top_k: int) -> float | None:
    if engine.startswith("eight_bit"):
        return EIGHT_BIT_TARGET if batch <= 64 and top_k == 3 else None
    if engine != "fused":
        return None
    return TARGETS[batch] if top_k == 3 else round(TARGETS[batch] * 1.5, 2)
