"""Is a run learning what it should? The failure signatures of the paper, and the collapse that GRPO is known for.

Each signature compares the mean of the last `window_steps` with that of the first; before two whole windows nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from parallelsearch.schemas.training import HealthSpec, StepMetrics

OVER_PARALLEL_SHARE, OVER_PARALLEL_RISE = 0.25, 0.1
FEWEST_SEARCHES, SEARCHES_LEFT = 0.5, 0.5
NOT_FINITE = "not_finite"
"""In the values of a step whose KL, loss or gradient was no number any more."""
MOST_WRONG_WITH_EVIDENCE, WRONG_RISE = 0.4, 0.1


@dataclass(frozen=True, slots=True)
class Windows:
    """Means over the first and the last window; a metric that is missing there is None."""

    steps: Sequence[StepMetrics]
    size: int

    def first(self, name: str) -> float | None:
        return _mean(self.steps[: self.size], name)

    def last(self, name: str) -> float | None:
        return _mean(self.steps[-self.size :], name)

    def best(self, name: str) -> float | None:
        starts = range(len(self.steps) - self.size + 1)
        means = [mean for start in starts if (mean := _mean(self.steps[start : start + self.size], name)) is not None]
        return max(means, default=None)


def diagnose(steps: Sequence[StepMetrics], spec: HealthSpec) -> tuple[str, ...]:
    """One sentence for each signature that shows, in a fixed order."""
    if len(steps) < 2 * spec.window_steps:
        return ()
    windows = Windows(steps, spec.window_steps)
    return tuple(found for signature in SIGNATURES if (found := signature(windows, spec)))


def _mean(steps: Sequence[StepMetrics], name: str) -> float | None:
    values = [step.values[name] for step in steps if name in step.values]
    return fmean(values) if values else None


def _over_parallel(windows: Windows, _: HealthSpec) -> str:
    first, last = windows.first("decomposed/sequential"), windows.last("decomposed/sequential")
    if first is None or last is None or last < OVER_PARALLEL_SHARE or last < first + OVER_PARALLEL_RISE:
        return ""
    return f"over-parallelisation: {last:.0%} of sequential questions are decomposed, up from {first:.0%}"


def _search_collapse(windows: Windows, _: HealthSpec) -> str:
    first, last = windows.first("searches"), windows.last("searches")
    if first is None or last is None or last >= min(FEWEST_SEARCHES, SEARCHES_LEFT * first):
        return ""
    return f"searches collapse: {last:.2f} a rollout, down from {first:.2f}"


def _evidence_ignored(windows: Windows, _: HealthSpec) -> str:
    first, last = windows.first("wrong_with_evidence"), windows.last("wrong_with_evidence")
    if first is None or last is None or last < MOST_WRONG_WITH_EVIDENCE or last < first + WRONG_RISE:
        return ""
    return f"evidence ignored: {last:.0%} of rollouts are wrong although the answer was retrieved, up from {first:.0%}"


def _divergence(windows: Windows, spec: HealthSpec) -> str:
    gone = sum(NOT_FINITE in step.values for step in windows.steps[-windows.size :])
    if 2 * gone >= windows.size:
        return f"divergence: KL, loss or gradient is no number any more in {gone} of the last {windows.size} steps"
    last = windows.last("kl")
    if last is None or abs(last) <= spec.max_kl:
        return ""
    return f"divergence: KL to the start is {last:.3g}, over {spec.max_kl:g}"


def _length(windows: Windows, spec: HealthSpec) -> str:
    first, last = windows.first("response_tokens"), windows.last("response_tokens")
    if first is None or last is None or last <= spec.max_length_growth * max(first, 1.0):
        return ""
    return f"length runs away: {last:.0f} tokens a rollout, up from {first:.0f}"


def _reward_drop(windows: Windows, spec: HealthSpec) -> str:
    best, last = windows.best("reward"), windows.last("reward")
    if best is None or last is None or last >= best - spec.max_reward_drop:
        return ""
    return f"reward falls: {last:.2f}, down from {best:.2f} at its best"


SIGNATURES: tuple[Callable[[Windows, HealthSpec], str], ...] = (
    _over_parallel,
    _search_collapse,
    _evidence_ignored,
    _divergence,
    _length,
    _reward_drop,
)
