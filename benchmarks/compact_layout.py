"""The `compact` layout against `labelled`: the prompt tokens that it saves, and what it does to exact match.

    python benchmarks/compact_layout.py FILE=INDEX… [--limit 100] [--seconds 270] [--out FOLDER]

The same questions (rows of the split `eval`) of each file are asked of the bundled policy in both layouts, over a retriever of the
file's index, straight, without a cache. A run that `--seconds` breaks off is gone on with by the same command; the one that
finishes writes the report. The policy was trained on `labelled`, so what it does under `compact` is what a change of layout does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import ROOT, markdown, ours, served, write_report

from parallelsearch.evaluation.comparing import Compared, Side, compare_tables, read_side
from parallelsearch.evaluation.statistics import PairedDifference
from parallelsearch.evaluation.table import Columns, read_columns

LAYOUTS = ("compact", "labelled")
CONCURRENCY = 8
HEADINGS = (
    "questions of | n | prompt tokens, labelled | compact | saved | exact match, labelled | compact | difference, points | rounds"
)


@dataclass(frozen=True)
class Row:
    group: str
    questions: int
    prompt_tokens_labelled: str
    prompt_tokens_compact: str
    saved: str
    exact_match_labelled: str
    exact_match_compact: str
    difference: str
    rounds: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="FILE=INDEX")
    parser.add_argument("--limit", type=int, default=1_000, help="questions of each file at most")
    parser.add_argument("--seconds", type=float, default=270, help="stop asking after so long")
    parser.add_argument("--port", type=int, default=18_600)
    parser.add_argument("--out", type=Path, default=ROOT / ".state" / "evaluation" / "compact")
    chosen = parser.parse_args()
    end = time.monotonic() + chosen.seconds
    sets = [(Path(file), Path(index)) for file, _, index in (each.rpartition("=") for each in chosen.sets)]
    environment = {"POLICY_PORT": str(chosen.port), "POLICY_LOG_LEVEL": "WARNING"}
    with served("policy", [sys.executable, "-m", "policy"], chosen.port, environment):
        for file, index in sets:
            with ours(index, chosen.port + 1):
                for layout in LAYOUTS:
                    if not ask(file, layout, chosen, end):
                        raise SystemExit("Not finished: the same command goes on from here.")
    report(sets, chosen.out)


def ask(file: Path, layout: str, chosen: argparse.Namespace, end: float) -> bool:
    """Whether all questions have been asked; what is missing at `end` is left."""
    url = "http://127.0.0.1:{}"
    command = [sys.executable, "-m", "parallelsearch", "eval", "run", str(file), "--mode", "parallel", "--split", "eval"]
    command += ["--answerable", "--limit", str(chosen.limit), "--direct", "--layout", layout, "--deadline", "300"]
    command += ["--policy", url.format(chosen.port) + "/v1", "--retriever", url.format(chosen.port + 1)]
    command += ["--concurrency", str(CONCURRENCY), "--out", str(run_of(chosen.out, file, layout))]
    try:
        return subprocess.run(command, check=True, timeout=max(end - time.monotonic(), 1)).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run_of(out: Path, file: Path, layout: str) -> Path:
    return out / f"{file.stem}-{layout}"


def report(sets: Sequence[tuple[Path, Path]], out: Path) -> None:
    sides = {layout: [read_side(str(run_of(out, file, layout))) for file, _ in sets] for layout in LAYOUTS}
    compact, labelled = (tables(sides[layout]) for layout in LAYOUTS)
    compared, unpaired = compare_tables(compact, labelled)
    if unpaired:
        raise SystemExit(f"{unpaired} questions were asked in one layout alone.")
    rows = [row(each) for each in compared]
    shares = {file.stem: repeated(run_of(out, file, "labelled")) for file, _ in sets}
    before = "; ".join(f"{name} {share:.1%}" for name, share in shares.items())
    note = (
        "In brackets 95 % intervals of the paired bootstrap over questions. Prompt tokens are summed over a question's calls: all "
        "that the policy reads, the instructions and its own text too. Rounds are searches of a question, labelled and compact. "
        f"Share of the passages found by the labelled run that the same rollout had found before: {before}. Bundled policy on the "
        f"CPU (trained on `labelled`), greedy, {CONCURRENCY} at a time, MiniLM over each set's own corpus, top_k 3, mode parallel."
    )
    results = {"groups": [asdict(each) for each in compared], "shown_before": shares}
    write_report("compact_layout", "The compact layout against the labelled one", markdown(HEADINGS, rows), results, note)


def tables(sides: Sequence[Side]) -> dict[str, Columns]:
    return {cell.set_name: read_columns(side.folder, cell, side.folder.questions()) for side in sides for cell in side.cells}


def row(compared: Compared) -> Row:
    tokens, right = compared.metrics["prompt_tokens"], compared.metrics["exact_match"]
    rounds = compared.metrics["search_rounds"]
    saved = [1 - value for value in (tokens.relative, tokens.relative_interval.high, tokens.relative_interval.low)]
    return Row(
        f"{compared.set_name}, {compared.group}",
        compared.n,
        f"{tokens.b:.0f}",
        f"{tokens.a:.0f}",
        f"{saved[0]:.1%} [{saved[1]:.1%}, {saved[2]:.1%}]",
        f"{right.b:.1%}",
        f"{right.a:.1%}",
        points(right),
        f"{rounds.b:.2f}, {rounds.a:.2f}",
    )


def points(found: PairedDifference) -> str:
    low, high = found.interval.low * 100, found.interval.high * 100
    return f"{found.difference * 100:+.1f} [{low:+.1f}, {high:+.1f}]"


def repeated(folder: Path) -> float:
    """Of the passages that a run's rollouts were shown, the share that had been shown before in the same rollout."""
    side = read_side(str(folder))
    shown, again = 0, 0
    for cell in side.cells:
        for trajectory in side.folder.trajectories(cell):
            seen: set[str] = set()
            for passage in (p for turn in trajectory.turns for result in turn.observation for p in result.passages):
                shown, again = shown + 1, again + (passage.id in seen)
                seen.add(passage.id)
    return again / max(shown, 1)


if __name__ == "__main__":
    main()
