"""How numbers are written in reports."""

from __future__ import annotations

from parallelsearch.evaluation.metrics import Better, Metric, Unit
from parallelsearch.evaluation.statistics import LEVEL, PairedDifference
from parallelsearch.evaluation.summary import Estimate

NOTHING = "–"


def number(unit: Unit, value: float | None) -> str:
    """Shares in per cent, times in seconds."""
    if value is None:
        return NOTHING
    match unit:
        case Unit.SHARE:
            return f"{100 * value:.1f}"
        case Unit.MILLISECONDS:
            return f"{value / 1000:.2f}" if abs(value) >= 10 else f"{value / 1000:.4f}"
        case Unit.COUNT:
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
        case Unit.VALUE:
            return f"{value:.3f}"


def name_with_unit(metric: Metric) -> str:
    suffix = {Unit.SHARE: ", %", Unit.MILLISECONDS: ", s"}.get(metric.unit, "")
    return metric.title + suffix


def interval(unit: Unit, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{number(unit, low)}, {number(unit, high)}]"


def estimate(unit: Unit, value: Estimate) -> str:
    return f"{number(unit, value.value)} {interval(unit, value.low, value.high)}".strip()


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def verdict(metric: Metric, found: PairedDifference) -> str:
    """Which side does better, where the interval of the difference leaves out 0 and so few questions can show it."""
    if found.interval is None or found.interval.low <= 0 <= found.interval.high or found.p >= 1 - LEVEL:
        return "no difference shown"
    if metric.better is Better.NEITHER:
        return "differs"
    return "A" if (found.difference > 0) == (metric.better is Better.HIGHER) else "B"
