"""The plots of a report as inline SVG, through matplotlib. Colours tell modes apart, and line styles or hatches do too."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from parallelsearch.evaluation.metrics import BY_NAME
from parallelsearch.evaluation.summary import CellSummary, Group
from parallelsearch.evaluation.table import ALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0b6e99", "#c4570b", "#4b7f2f", "#7a4fa3", "#8a6d00", "#a3324f")
STYLES = ("-", "--", "-.", ":")
TERMS = ("reward_outcome", "reward_decomposition", "reward_search_count", "reward_repetition")
MAX_POINTS = 1_500
ROW_INCHES = 3.2

Named = tuple[str, CellSummary]
"""What a plot calls a cell, and the cell."""


def draw(panels: Sequence[tuple[str, Callable[[Axes], None]]], *, columns: int = 2) -> str:
    """One figure with a panel each, as an `<svg>` element that stands in HTML as it is and is the same for the same data."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    with rc_context({"svg.hashsalt": "parallelsearch", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10}):
        figure = Figure(figsize=(5.4 * columns, ROW_INCHES * rows), layout="constrained")
        for place, (title, panel) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            panel(axes)
            axes.set_title(plain(title))
            axes.spines[["top", "right"]].set_visible(False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def plain(text: str) -> str:
    """Names of sets and models are no mathematics."""
    return text.replace("$", r"\$")


def turn_panels(by_set: dict[str, list[Named]]) -> list[tuple[str, Callable[[Axes], None]]]:
    """Per set, which share of the questions was done after how many LLM calls (the paper's figure 3)."""
    return [(name, lambda axes, cells=cells: _turns(axes, cells)) for name, cells in by_set.items()]  # type: ignore[misc]


def _turns(axes: Axes, cells: Sequence[Named]) -> None:
    most = 1
    for place, (label, cell) in enumerate(cells):
        for dash, group in enumerate(_by_kind(cell)):
            shares, total, calls = [], 0, {int(key): count for key, count in group.llm_calls.items()}
            last = max(calls, default=1)
            most = max(most, last)
            for turns in range(1, last + 1):
                total += calls.get(turns, 0)
                shares.append(100 * total / group.n)
            style = STYLES[dash % len(STYLES)]
            name = plain(f"{label}, {group.name.removeprefix('kind ')}")
            axes.plot(range(1, last + 1), shares, style, marker="o", markersize=3, color=COLOURS[place % len(COLOURS)], label=name)
    axes.set(xlabel="LLM calls", ylabel="questions done, %", ylim=(0, 103), xticks=range(1, most + 1))
    axes.legend(fontsize=7, frameon=False)


def _by_kind(cell: CellSummary) -> list[Group]:
    kinds = [group for name, group in cell.groups.items() if name.startswith("kind ") and group.n]
    return kinds or [cell.groups[ALL]]


def exact_match_panels(by_set: dict[str, list[Named]]) -> list[tuple[str, Callable[[Axes], None]]]:
    return [(name, lambda axes, cells=cells: _exact_match(axes, cells)) for name, cells in by_set.items()]  # type: ignore[misc]


def _exact_match(axes: Axes, cells: Sequence[Named]) -> None:
    names = list(dict.fromkeys(name for _, cell in cells for name in cell.groups))
    if len(names) == 2:
        names.remove(ALL)
    width = 0.8 / len(cells)
    for place, (label, cell) in enumerate(cells):
        for row, name in enumerate(names):
            group = cell.groups.get(name)
            found = group.metrics["exact_match"] if group else None
            if found is None or found.value is None:
                continue
            low, high = (found.value if end is None else end for end in (found.low, found.high))
            axes.bar(
                row + (place - (len(cells) - 1) / 2) * width,
                100 * found.value,
                width * 0.92,
                yerr=[[100 * (found.value - low)], [100 * (high - found.value)]],
                capsize=2,
                color=COLOURS[place % len(COLOURS)],
                hatch=("", "//", "..")[place % 3],
                edgecolor="white",
                label=plain(label) if row == 0 else None,
            )
    counts = {name: max(cell.groups[name].n for _, cell in cells if name in cell.groups) for name in names}
    labels = [plain(f"{name.removeprefix('kind ').removeprefix('type ')}\nn = {counts[name]}") for name in names]
    axes.set_xticks(range(len(names)), labels, fontsize=7)
    axes.set(ylabel="exact match, %", ylim=(0, 105))
    axes.legend(fontsize=7, frameon=False)


def latency_panel(cells: Sequence[Named]) -> tuple[str, Callable[[Axes], None]]:
    """Wall clock against sub-queries: a dot a rollout, a line through the medians."""
    return "Wall clock against sub-queries", lambda axes: _latency(axes, _pool(cells))


def _pool(cells: Sequence[Named]) -> dict[str, list[tuple[int, float]]]:
    pooled: dict[str, list[tuple[int, float]]] = {}
    for label, cell in cells:
        pooled.setdefault(label, []).extend((point.sub_queries, point.total_ms / 1000) for point in cell.points)
    return pooled


def _latency(axes: Axes, pooled: dict[str, list[tuple[int, float]]]) -> None:
    from statistics import median

    for place, (label, points) in enumerate(pooled.items()):
        colour, step = COLOURS[place % len(COLOURS)], max(1, len(points) // MAX_POINTS)
        shift = 0.12 * (place - (len(pooled) - 1) / 2)
        shown = points[::step]
        axes.plot([x + shift for x, _ in shown], [y for _, y in shown], ".", markersize=2.5, alpha=0.35, color=colour)
        counts = sorted({x for x, _ in points})
        middle = [median(y for x, y in points if x == count) for count in counts]
        axes.plot(
            counts, middle, STYLES[place % len(STYLES)], marker="o", markersize=4, color=colour, label=plain(f"{label}, median")
        )
    axes.set(xlabel="sub-queries of the rollout", ylabel="wall clock, s")
    axes.locator_params(axis="x", integer=True)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, frameon=False)


def reward_panel(cells: Sequence[Named]) -> tuple[str, Callable[[Axes], None]]:
    """The mean of each reward term, stacked."""
    return "Reward terms (strict)", lambda axes: _reward(axes, cells)


def _reward(axes: Axes, cells: Sequence[Named]) -> None:
    names = [plain(f"{cell.set_name}, {label}") for label, cell in cells]
    above, below = [0.0] * len(cells), [0.0] * len(cells)
    for place, term in enumerate(TERMS):
        values = [cell.groups[ALL].metrics[term].value or 0.0 for _, cell in cells]
        starts = [above[row] if value >= 0 else below[row] for row, value in enumerate(values)]
        title = BY_NAME[term].title.removeprefix("– ")
        axes.barh(range(len(cells)), values, left=starts, color=COLOURS[place], label=title, edgecolor="white")
        for row, value in enumerate(values):
            (above if value >= 0 else below)[row] += value
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.6)
    axes.set_xlabel("mean reward")
    axes.legend(fontsize=7, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.18))
