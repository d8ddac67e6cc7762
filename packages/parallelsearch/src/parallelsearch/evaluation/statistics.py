"""Intervals, tests and effect sizes. Pure functions of arrays and a seed; the same arrays and seed give the same bits.

Intervals are percentile bootstraps (Efron and Tibshirani 1993): questions are drawn with replacement, a ratio of sums is taken
anew each time. One question, drawn again and again, has none. numpy and scipy are imported when a function runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 2_000
CHUNK_CELLS = 1_000_000
"""Draws held at once: what bounds the memory."""


@dataclass(frozen=True, slots=True)
class Interval:
    """None where there is nothing to take it over."""

    low: float
    high: float


def ratios(tops: Array, bottoms: Array) -> list[float | None]:
    """Sum over sum, a metric a row and a question a column; a NaN in either counts in neither. None over nothing."""
    tops, bottoms = _defined(tops, bottoms)
    sums = zip(tops.sum(axis=1).tolist(), bottoms.sum(axis=1).tolist(), strict=True)
    return [top / bottom if bottom else None for top, bottom in sums]


def ratio_intervals(tops: Array, bottoms: Array, *, seed: int, resamples: int = RESAMPLES) -> list[Interval | None]:
    """The bootstrap interval of each of `ratios`, all from the same draws. Draws in which a denominator is 0 are left out."""
    import numpy as np

    tops, bottoms = _defined(tops, bottoms)
    counted = ((tops != 0) | (bottoms != 0)).sum(axis=1)
    draws = _draw_ratios(tops, bottoms, seed, resamples)
    return [_interval(row[np.isfinite(row)], int(count)) for row, count in zip(draws, counted, strict=True)]


def quantile_interval(values: Array, q: float, *, seed: int, resamples: int = RESAMPLES) -> Interval | None:
    """The bootstrap interval of the `q` quantile (linear interpolation)."""
    import numpy as np

    if len(values) < 2:
        return None
    parts = [np.quantile(values[index], q, axis=1) for index in _indices(len(values), seed, resamples)]
    return _interval(np.concatenate(parts), len(values))


@dataclass(frozen=True, slots=True)
class McNemar:
    """`p` of the exact two-sided test on the questions that only one run got right (McNemar 1947; exact binomial)."""

    both: int
    only_a: int
    only_b: int
    neither: int
    p: float
    odds_ratio: float | None
    """only_a / only_b, the conditional odds ratio; None where only_b is 0."""


def mcnemar(a: Array, b: Array) -> McNemar:
    """Compares two runs, right (1) or wrong (0) on the same questions."""
    from scipy.stats import binomtest

    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    discordant = only_a + only_b
    p = float(binomtest(only_a, discordant, 0.5).pvalue) if discordant else 1.0
    both = int(((a == 1) & (b == 1)).sum())
    return McNemar(both, only_a, only_b, len(a) - both - discordant, p, only_a / only_b if only_b else None)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """a − b of a ratio over the same questions.

    `p` is two-sided: twice the share of draws on the far side of 0, and over n questions never less than 2^(1 − n), the least that
    the exact test gives which tosses the sign of each.
    """

    a: float
    b: float
    difference: float
    interval: Interval | None
    p: float
    relative: float | None
    """a / b; None where b is 0."""
    relative_interval: Interval | None
    effect: float | None
    """Cohen's d of the paired differences (mean over standard deviation); None where they do not vary or are no means."""


def paired_bootstrap(
    a: tuple[Array, Array], b: tuple[Array, Array], *, seed: int, resamples: int = RESAMPLES
) -> list[PairedDifference | None]:
    """Compares ratios (numerators and denominators as in `ratios`) of two runs on the same questions, resampled together.

    A question with a NaN in either run counts in neither. None for a metric with nothing left.
    """
    import numpy as np

    parts = np.stack([*a, *b])
    parts = np.where(np.isfinite(parts).all(axis=0), parts, 0.0)
    a_top, a_bottom, b_top, b_bottom = parts
    metrics = len(a_top)
    draws = _draw_ratios(np.concatenate([a_top, b_top]), np.concatenate([a_bottom, b_bottom]), seed, resamples)
    return [
        _paired(draws[row], draws[metrics + row], (a_top[row], a_bottom[row]), (b_top[row], b_bottom[row]))
        for row in range(metrics)
    ]


def _paired(draws_a: Array, draws_b: Array, a: tuple[Array, Array], b: tuple[Array, Array]) -> PairedDifference | None:
    import numpy as np

    usable = np.isfinite(draws_a) & np.isfinite(draws_b)
    differences = draws_a[usable] - draws_b[usable]
    if not len(differences) or not a[1].sum() or not b[1].sum():
        return None
    count = int((np.stack([*a, *b]) != 0).any(axis=0).sum())
    value_a, value_b = float(a[0].sum() / a[1].sum()), float(b[0].sum() / b[1].sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        relatives = draws_a[usable] / draws_b[usable]
    return PairedDifference(
        a=value_a,
        b=value_b,
        difference=value_a - value_b,
        interval=_interval(differences, count),
        p=max(_two_sided(differences), 2.0 ** (1 - count)),
        relative=value_a / value_b if value_b else None,
        relative_interval=_interval(relatives[np.isfinite(relatives)], count) if value_b else None,
        effect=_cohens_d(a, b),
    )


@dataclass(frozen=True, slots=True)
class QuantileRatio:
    """One quantile of two runs, and a / b with its interval."""

    a: float
    b: float
    relative: float | None
    interval: Interval | None


def paired_quantiles(a: Array, b: Array, q: float, *, seed: int, resamples: int = RESAMPLES) -> QuantileRatio | None:
    """Compares the `q` quantile of two runs on the same questions, resampled together."""
    import numpy as np

    if not len(a):
        return None
    value_a, value_b = float(np.quantile(a, q)), float(np.quantile(b, q))
    if not value_b:
        return QuantileRatio(value_a, value_b, None, None)
    parts = []
    for index in _indices(len(a), seed, resamples):
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(np.quantile(a[index], q, axis=1) / np.quantile(b[index], q, axis=1))
    relatives = np.concatenate(parts)
    return QuantileRatio(value_a, value_b, value_a / value_b, _interval(relatives[np.isfinite(relatives)], len(a)))


def cohens_h(a: float, b: float) -> float:
    """The effect size of two proportions, 2·asin(√a) − 2·asin(√b) (Cohen 1988): 0.2 is small, 0.5 medium, 0.8 large."""
    import numpy as np

    return float(2 * np.arcsin(np.sqrt(a)) - 2 * np.arcsin(np.sqrt(b)))


def _defined(tops: Array, bottoms: Array) -> tuple[Array, Array]:
    """Zeros in the place of what is not defined, so that it adds to neither sum."""
    import numpy as np

    kept = np.isfinite(tops) & np.isfinite(bottoms)
    return np.where(kept, tops, 0.0), np.where(kept, bottoms, 0.0)


def _indices(count: int, seed: int | Sequence[int], resamples: int) -> Iterator[NDArray[np.int64]]:
    """Which questions each draw takes, in chunks of bounded size."""
    import numpy as np

    generator = np.random.default_rng(seed)
    step = max(1, CHUNK_CELLS // count)
    for begin in range(0, resamples, step):
        yield generator.integers(0, count, (min(step, resamples - begin), count))


def _draw_ratios(tops: Array, bottoms: Array, seed: int | Sequence[int], resamples: int) -> Array:
    """For each metric and draw the ratio of sums: how often each question is drawn, times what it adds."""
    import numpy as np

    metrics, count = tops.shape
    sums = np.empty((resamples, 2 * metrics))
    begin = 0
    for index in _indices(count, seed, resamples) if count else ():
        rows = len(index)
        places = (index + count * np.arange(rows)[:, None]).ravel()
        drawn = np.bincount(places, minlength=rows * count).reshape(rows, count)
        sums[begin : begin + rows] = drawn @ np.concatenate([tops, bottoms]).T
        begin += rows
    with np.errstate(divide="ignore", invalid="ignore"):
        return (sums[:begin, :metrics] / sums[:begin, metrics:]).T


def _interval(draws: Array, count: int) -> Interval | None:
    """Of draws over `count` questions."""
    import numpy as np

    if not len(draws) or count < 2:
        return None
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def _two_sided(differences: Array) -> float:
    """One is added to both counts, so that a bootstrap of B draws never claims less than 2 / (B + 1)."""
    draws = len(differences)
    below, above = int((differences <= 0).sum()), int((differences >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (draws + 1))


def _cohens_d(a: tuple[Array, Array], b: tuple[Array, Array]) -> float | None:
    """Over the questions that count; None where the ratio is no mean."""
    import numpy as np

    counted = (np.stack([*a, *b]) != 0).any(axis=0)
    if not ((a[1][counted] == 1).all() and (b[1][counted] == 1).all()) or counted.sum() < 2:
        return None
    differences = a[0][counted] - b[0][counted]
    spread = float(np.std(differences, ddof=1))
    return float(differences.mean()) / spread if spread > 1e-9 * float(np.abs(differences).max()) else None


def macro_mean(parts: list[tuple[Array, Array]], *, seed: int, resamples: int = RESAMPLES) -> tuple[float, Interval] | None:
    """The mean over sets of one ratio each (numerators and denominators of shape 1 × n), every set resampled by itself."""
    import numpy as np

    values = [value for part in parts for value in ratios(*part)]
    if not parts or any(value is None for value in values):
        return None
    seeds = [(seed, place) for place in range(len(parts))]  # from one seed, sets of one size would be drawn alike
    draws = np.mean([_draw_ratios(*_defined(*part), own, resamples)[0] for part, own in zip(parts, seeds, strict=True)], axis=0)
    interval = _interval(draws[np.isfinite(draws)], sum(part[0].shape[1] for part in parts))
    return (float(np.mean([value for value in values if value is not None])), interval) if interval else None
