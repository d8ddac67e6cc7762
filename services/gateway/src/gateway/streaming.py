"""Answers as they come about: a rollout's events in a bounded queue, read by one caller, who by leaving ends the rollout.

A slow reader loses nothing: deltas that were not taken yet are joined, so what waits is bounded by the rollout's own limits. A
reader that takes nothing at all is cut off (`endpoints.sse`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine

from parallelsearch.errors import Overloaded, ParallelSearchError
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
from servicekit.errors import problem_body

MAX_WAITING = 4_096
"""More events than the widest rollout has once its deltas are joined."""


class ReaderTooSlow(Exception):
    """Raised into the rollout."""


class EventQueue:
    """Single producer, single reader, in one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Adds an event.

        Raises:
            ReaderTooSlow: the reader is too far behind, which ends the rollout.
        """
        if self._waiting and (joined := _join(self._waiting[-1], event)):
            self._waiting[-1] = joined
            return
        if len(self._waiting) >= MAX_WAITING:
            raise ReaderTooSlow
        self._waiting.append(event)
        self._changed.set()

    def close(self) -> None:
        """Nothing more will come; what waits is still read."""
        self._closed = True
        self._changed.set()

    async def next(self) -> Event | None:
        """The next event, None at the end. Bounded by the rollout's deadline, after which the queue is closed."""
        while not self._waiting:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()


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

    def __init__(self, answer_id: str, queue: EventQueue) -> None:
        self._id = answer_id
        self._queue = queue
        self._turn = 0
        self._reader = TurnReader()

    def turn_started(self, index: int, *, opened: bool) -> None:
        self._turn, self._reader = index, TurnReader(opened=opened)
        self._queue.put(TurnStarted(id=self._id, turn=index))

    def text_written(self, text: str) -> None:
        self._say(self._reader.read(text))

    def turn_parsed(self, turn: Turn) -> None:
        self._say(self._reader.finish(turn))

    def search_started(self, turn: Turn) -> None:
        assert isinstance(turn.action, Search)
        self._queue.put(SearchStarted(turn=turn.index, queries=list(turn.action.queries), dropped=turn.action.dropped))

    def sub_query_landed(self, position: int, result: SubQueryResult) -> None:
        self._queue.put(
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
            self._queue.put(kind(turn=self._turn, text=delta.text))


Run = Callable[[RolloutObserver], Coroutine[None, None, TrajectoryModel]]


class AnswerStream:
    """A rollout in a task of its own. Closing the stream cancels it, and with it its requests to policy and retriever."""

    def __init__(self, answer_id: str, run: Run) -> None:
        self._queue = EventQueue()
        self._task = asyncio.create_task(run(EventObserver(answer_id, self._queue)))
        self._task.add_done_callback(lambda _: self._queue.close())
        self._first: Event | None = None

    async def started(self) -> AnswerStream:
        """Waits for the first event, so that a request that cannot be served is refused with its own status.

        Raises:
            ParallelSearchError: the rollout failed before it said anything.
        """
        try:
            self._first = await self._queue.next()
            if self._first is None:
                await self._task
        except BaseException:
            await self.close()
            raise
        return self

    async def events(self) -> AsyncGenerator[Event]:
        """All events, the last one `done` or `error`; to be read once."""
        try:
            event = self._first
            while event is not None:
                yield event
                event = await self._queue.next()
            yield await self._end()
        finally:
            await self.close()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _end(self) -> Event:
        try:
            trajectory = await self._task
        except ParallelSearchError as error:
            return Failed(**problem_body(error))
        except ReaderTooSlow:
            return Failed(**problem_body(Overloaded("The stream was read too slowly.")))
        return Done(**dict(trajectory))
