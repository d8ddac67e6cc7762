"""What a dashboard is made of, and the queries that many panels share. `build.py` turns it into Grafana's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """As Grafana spells them."""

    SECONDS = "s"
    RATIO = "percentunit"
    PER_SECOND = "cps"
    REQUESTS_PER_SECOND = "reqps"
    COUNT = "short"


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` takes labels as `{{label}}`."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    what: str
    unit: Unit
    queries: tuple[Query, ...]
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    rows: tuple[Row, ...]


WINDOW = "$__rate_interval"


def rate(metric: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}[{WINDOW}]))"


def quantiles(metric: str, by: str = "") -> tuple[Query, ...]:
    grouping, legend = (f", {by}", f" {{{{{by}}}}}") if by else ("", "")
    return tuple(
        Query(f"histogram_quantile({q}, sum by (le{grouping}) (rate({metric}_bucket[{WINDOW}])))", f"p{q * 100:.0f}{legend}")
        for q in (0.5, 0.95, 0.99)
    )


def mean(metric: str, legend: str, by: str = "") -> Query:
    return Query(f"{rate(f'{metric}_sum', by)} / {rate(f'{metric}_count', by)}", legend)


def seconds(title: str, metric: str, what: str, by: str = "") -> Panel:
    return Panel(title, what, Unit.SECONDS, quantiles(metric, by))
