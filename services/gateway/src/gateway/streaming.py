"""Answers as they come about: a rollout's events, numbered, in a log that is bounded, and read from any place that it still holds.

A slow reader loses nothing: deltas that nobody has taken yet are joined, so what waits is bounded by the rollout's own limits. A
reader that takes nothing at all is cut off (`endpoints.sse`). The rollout waits for no reader; it ends when none has been there
for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from parallelsearch.errors import Gone, ParallelSearchError, Stopping
from parallelsearch.protocol.deltas import Delta, TurnReader
from parallelsearch.rollout.observer import RolloutObserver
from parallelsearch.rollout.types import Search, SubQueryResult, Turn
from parallelsearch.schemas.answers import TrajectoryModel
from parallelsearch.schemas.events import (
    AnswerDelta,
    Done,
    Event,
    Failed,
    ReasoningDelta,
    SearchResultLanded,
    SearchStarted,
    TurnStarted,
)
from parallelsearch.schemas.trajectories import passage_to_wire
from servicekit.errors import UNEXPECTED, problem_body

log = structlog.get_logger(__name__)

MAX_KEPT = 4_096
"""More events than the widest rollout has once its deltas are joined."""
FIRST_READER_S = 5.0
"""So long a stream waits for its first reader, who is on the way when it is made."""

LEFT = "Nobody read the stream for too long. Ask again."


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event and its place in the log, from 1."""

    number: int
    event: Event


class EventLog:
    """What one rollout has said; the last `MAX_KEPT` events are held. A single producer and any readers, in one event loop."""

    def __init__(self) -> None:
        self._kept: deque[Event] = deque()
        self._dropped = 0
        self._taken = 0
        self._changed = asyncio.Event()
        self.closed = False

    @property
    def last(self) -> int:
        """The number of the last event; 0 before the first."""
        return self._dropped + len(self._kept)

    def put(self, event: Event) -> None:
        """Adds an event. One that a reader has taken never changes."""
        if self.last > self._taken and (joined := _join(self._kept[-1], event)):
            self._kept[-1] = joined
            return
        if len(self._kept) >= MAX_KEPT:
            self._kept.popleft()
            self._dropped += 1
        self._kept.append(event)
        self._wake()

    def close(self) -> None:
        """Nothing more will come; what is there is still read."""
        self.closed = True
        self._wake()

    def holds_after(self, number: int) -> bool:
        """Whether nothing that follows this event has been dropped."""
        return number >= self._dropped

    async def beyond(self, number: int) -> bool:
        """Waits until there is an event after this one; False if there never will be. Bounded by the rollout's deadline."""
        while self.last <= number:
            if self.closed:
                return False
            await self._changed.wait()
        return True

    async def after(self, number: int) -> AsyncGenerator[Numbered]:
        """The events that follow, as they come.

        Raises:
            Gone: the reader is further behind than the log reaches back.
        """
        while await self.beyond(number):
            if not self.holds_after(number):
                raise Gone("The stream was read too slowly: what comes next is not held any more.")
            number += 1
            self._taken = max(self._taken, number)
            yield Numbered(number, self._kept[number - self._dropped - 1])

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _join(last: Event, event: Event) -> Event | None:
    """Two deltas of the same part of the same turn as one."""
    match last, event:
        case ReasoningDelta(), ReasoningDelta() if last.turn == event.turn:
            return ReasoningDelta(turn=last.turn, text=last.text + event.text)
        case AnswerDelta(), AnswerDelta() if last.turn == event.turn:
            return AnswerDelta(turn=last.turn, text=last.text + event.text)
    return None


class EventObserver(RolloutObserver):
    """Turns what happens in a rollout into events."""

    watches_text = True

    def __init__(self, answer_id: str, events: EventLog) -> None:
        self._id = answer_id
        self._log = events
        self._turn = 0
        self._reader = TurnReader()

    def turn_started(self, index: int, *, opened: bool) -> None:
        self._turn, self._reader = index, TurnReader(opened=opened)
        self._log.put(TurnStarted(id=self._id, turn=index))

    def text_written(self, text: str) -> None:
        self._say(self._reader.read(text))

    def turn_parsed(self, turn: Turn) -> None:
        self._say(self._reader.finish(turn))

    def search_started(self, turn: Turn) -> None:
        assert isinstance(turn.action, Search)
        self._log.put(SearchStarted(turn=turn.index, queries=list(turn.action.queries), dropped=turn.action.dropped))

    def sub_query_landed(self, position: int, result: SubQueryResult) -> None:
        self._log.put(
            SearchResultLanded(
                turn=self._turn,
                index=position,
                query=result.query,
                passages=[passage_to_wire(passage) for passage in result.passages],
                cached=result.cached,
                failed=result.failed,
                latency_ms=result.latency_ms,
            )
        )

    def _say(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            kind = ReasoningDelta if delta.part == "reasoning" else AnswerDelta
            self._log.put(kind(turn=self._turn, text=delta.text))


Run = Callable[[RolloutObserver], Coroutine[None, None, TrajectoryModel]]


class AnswerStream:
    """A rollout in a task of its own, which goes on without a reader for `grace_s`, as does what it has said once it is over.

    Then it ends: the task is cancelled, and with it its requests to policy and retriever. `ended` is told. While it goes on without
    a reader it keeps its caller's place, so that nobody has more rollouts than places by leaving them.
    """

    def __init__(self, answer_id: str, run: Run, *, grace_s: float = 0.0, ended: Callable[[], None] = lambda: None) -> None:
        self.log = EventLog()
        self._grace_s = grace_s
        self._ended = ended
        self._readers = 0
        self._stopped = False
        self._leaving: asyncio.TimerHandle | None = None
        self._place: AsyncExitStack | None = None
        self._releasing: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(run(EventObserver(answer_id, self.log)))
        self._task.add_done_callback(self._conclude)

    @property
    def is_over(self) -> bool:
        """Whether the rollout has ended and nobody reads what it said."""
        return self._task.done() and not self._readers

    async def started(self) -> AnswerStream:
        """Waits for the first event, so that a request that cannot be served is refused with its own status.

        Raises:
            ParallelSearchError: the rollout failed before it said anything.
        """
        try:
            await self.log.beyond(0)
            if self._task.done() and self.log.last <= 1:
                await self._task
        except BaseException:
            await self.close()
            raise
        self._wait_for_reader(FIRST_READER_S)
        return self

    async def events(self, after: int = 0) -> AsyncGenerator[Numbered]:
        """All events that follow the one of this number, the last one `done` or `error`."""
        self._readers += 1
        self._stop_waiting()
        number = after
        try:
            async for numbered in self.log.after(after):
                number = numbered.number
                yield numbered
        except Gone as error:
            yield Numbered(number, Failed(**problem_body(error)))
        finally:
            self._readers -= 1
            if not self._readers:
                await self._left()

    async def take_over(self, place: AsyncExitStack) -> None:
        """Keeps the place of a reader who left until the rollout ends; one that has ended, or has a place, needs none."""
        if self._place is None and not self._task.done():
            self._place = place
        else:
            await place.aclose()

    def give_place(self) -> AsyncExitStack | None:
        """The place that it keeps, for a reader who comes back."""
        place, self._place = self._place, None
        return place

    async def close(self) -> None:
        """Gives up, and waits until the rollout has ended."""
        self.give_up()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._releasing is not None:
            await self._releasing

    async def _left(self) -> None:
        if self._grace_s:
            self._wait_for_reader(self._grace_s)
        else:
            await self.close()

    def _wait_for_reader(self, seconds: float) -> None:
        self._stop_waiting()
        self._leaving = asyncio.get_running_loop().call_later(seconds, self.give_up)

    def _stop_waiting(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def give_up(self) -> None:
        """Ends the rollout, if it has not, and lets go of its events; waits for nothing."""
        self._stop_waiting()
        self._ended()
        self._task.cancel()

    def stop(self) -> None:
        """Ends the rollout because the service ends, which its readers are told."""
        self._stopped = True
        self._task.cancel()

    def _conclude(self, task: asyncio.Task[TrajectoryModel]) -> None:
        """Says how it ended, also to a reader who comes back in the moment that it is given up."""
        if not task.cancelled():
            self.log.put(_last_event(task))
        else:
            broken_off = Stopping("The gateway is being stopped. Ask again.") if self._stopped else Gone(LEFT)
            self.log.put(Failed(**problem_body(broken_off)))
        self.log.close()
        if (place := self.give_place()) is not None:
            self._releasing = asyncio.create_task(place.aclose())


def _last_event(task: asyncio.Task[TrajectoryModel]) -> Event:
    """Of a failure that nobody expected the log tells the details and the reader none."""
    error = task.exception()
    if error is None:
        return Done(**dict(task.result()))
    if not isinstance(error, ParallelSearchError):
        log.error("unexpected_error", error=type(error).__name__, exc_info=error)
        error = ParallelSearchError(UNEXPECTED)
    return Failed(**problem_body(error))
