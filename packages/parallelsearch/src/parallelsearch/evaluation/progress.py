"""How far a run is, in one line: done, rate, remaining time, and what the answers look like so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from parallelsearch.evaluation.plan import Job
from parallelsearch.reward.exact_match import exact_match
from parallelsearch.schemas.answers import TrajectoryModel

WINDOW = 64
"""Rollouts over which the rate is taken."""


@dataclass(slots=True)
class Progress:
    """Counts finished jobs and says a line at most every `every_s` seconds; `clock` and `say` are the rim."""

    total: int
    already: int
    clock: Callable[[], float]
    say: Callable[[str], None]
    every_s: float = 5.0
    done: int = 0
    matched: int = 0
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _said_at: float = 0.0

    def start(self) -> None:
        self._said_at = self.clock()
        self._times.append(self._said_at)
        resumed = f", {self.already} of them finished before" if self.already else ""
        self.say(f"{self.total} rollouts{resumed}")

    def finished(self, job: Job, trajectory: TrajectoryModel) -> None:
        now = self.clock()
        self.done += 1
        self.matched += exact_match(trajectory.answer, job.question.golden_answers)
        self._times.append(now)
        if now - self._said_at >= self.every_s or self.already + self.done == self.total:
            self._said_at = now
            self.say(self.line())

    @property
    def rate(self) -> float:
        """Finished rollouts a second, lately."""
        elapsed = self._times[-1] - self._times[0] if len(self._times) > 1 else 0.0
        return (len(self._times) - 1) / elapsed if elapsed > 0 else 0.0

    def line(self) -> str:
        finished = self.already + self.done
        left = self.total - finished
        remaining = f", {duration(left / self.rate)} left" if left and self.rate else ""
        return (
            f"{finished}/{self.total} ({finished / self.total:.0%}), {self.rate:.2f}/s{remaining}; "
            f"exact match so far {self.matched / self.done:.0%}"
        )


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
