"""What can be watched while a rollout runs. The base class watches nothing; streaming and tracing override it."""

from __future__ import annotations

from collections.abc import Sequence

from parallelsearch.rollout.types import Answer, SubQueryResult, Trajectory, Turn


class RolloutObserver:
    """Called in order, from the task that runs the rollout; a method must not block."""

    watches_text = False
    """Whether the policy is to be asked for its text as it writes."""

    def turn_started(self, index: int, *, opened: bool) -> None:
        """A generation begins; `opened` where the environment wrote the opening tag of its answer."""

    def text_written(self, text: str) -> None:
        """The policy wrote more of its turn. Not called for a policy that does not stream, nor unless `watches_text`."""

    def turn_parsed(self, turn: Turn) -> None:
        """The policy's text was read; a search has not been run yet."""

    def search_started(self, turn: Turn) -> None:
        """The sub-queries of the turn go out."""

    def sub_query_landed(self, position: int, result: SubQueryResult) -> None:
        """One sub-query of the search has its result. Called by search backends that know before the turn does.

        A second time for a result that replaces the first.
        """

    def turn_observed(self, turn: Turn) -> None:
        """The observation of the turn stands."""

    def finished(self, trajectory: Trajectory) -> None:
        """The rollout is over."""


class ObserverGroup(RolloutObserver):
    """Several observers as one, told in their order."""

    def __init__(self, observers: Sequence[RolloutObserver]) -> None:
        self._observers = observers
        self.watches_text = any(observer.watches_text for observer in observers)

    def turn_started(self, index: int, *, opened: bool) -> None:
        for observer in self._observers:
            observer.turn_started(index, opened=opened)

    def text_written(self, text: str) -> None:
        for observer in self._observers:
            observer.text_written(text)

    def turn_parsed(self, turn: Turn) -> None:
        for observer in self._observers:
            observer.turn_parsed(turn)

    def search_started(self, turn: Turn) -> None:
        for observer in self._observers:
            observer.search_started(turn)

    def sub_query_landed(self, position: int, result: SubQueryResult) -> None:
        for observer in self._observers:
            observer.sub_query_landed(position, result)

    def turn_observed(self, turn: Turn) -> None:
        for observer in self._observers:
            observer.turn_observed(turn)

    def finished(self, trajectory: Trajectory) -> None:
        for observer in self._observers:
            observer.finished(trajectory)


def retell(trajectory: Trajectory, observer: RolloutObserver) -> None:
    """Tells of a rollout that is over what its observer would have been told, but for the policy's text piece by piece."""
    for turn in trajectory.turns:
        observer.turn_started(turn.index, opened=isinstance(turn.action, Answer) and turn.action.opened)
        observer.turn_parsed(turn)
        if turn.observation:
            observer.search_started(turn)
            for position, result in enumerate(turn.observation):
                observer.sub_query_landed(position, result)
            observer.turn_observed(turn)
    observer.finished(trajectory)
