"""What can be watched while a rollout runs. The base class watches nothing; streaming and tracing override it."""

from __future__ import annotations

from parallelsearch.rollout.types import Trajectory, Turn


class RolloutObserver:
    """Called in order, from the task that runs the rollout; a method must not block."""

    def turn_started(self, index: int) -> None:
        """A generation begins."""

    def turn_parsed(self, turn: Turn) -> None:
        """The policy's text was read; a search has not been run yet."""

    def turn_observed(self, turn: Turn) -> None:
        """The observation of the turn stands."""

    def finished(self, trajectory: Trajectory) -> None:
        """The rollout is over."""
