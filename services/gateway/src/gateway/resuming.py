"""Streams that a reader who lost its connection can come back to, by the answer's id and for its own key; in this process alone."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

from gateway.streaming import AnswerStream, Run
from parallelsearch.errors import Gone, NotFound

MAX_OVER = 256
"""Answers that are over and wait for nobody but a reader who may come back; the oldest make room."""
MAX_REMEMBERED = 4_096
"""Ids of streams that are gone, so that whoever asks is told that there was one."""


@dataclass(frozen=True, slots=True)
class _Held:
    owner: str
    stream: AnswerStream


class AnswerStreams:
    """Those that run, and for `grace_s` those that nobody reads. With a grace of 0 there is nothing to come back to."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._gone: OrderedDict[str, str] = OrderedDict()

    def start(self, answer_id: str, owner: str, run: Run) -> AnswerStream:
        self._make_room()
        stream = AnswerStream(answer_id, run, grace_s=self._grace_s, ended=partial(self._forget, answer_id))
        self._held[answer_id] = _Held(owner, stream)
        return stream

    def find(self, answer_id: str, owner: str) -> AnswerStream:
        """The stream of an answer.

        Raises:
            NotFound: there was none of this id here, or it is somebody else's.
            Gone: nobody read it for too long.
        """
        held = self._held.get(answer_id)
        if held is not None and held.owner == owner:
            return held.stream
        if self._gone.get(answer_id) == owner:
            raise Gone(f"The stream of answer {answer_id} was held for {self._grace_s:g} s after its reader left. Ask again.")
        raise NotFound(f"There is no stream of an answer {answer_id[:64]} of yours at this replica.")

    async def close(self) -> None:
        await asyncio.gather(*(held.stream.close() for held in list(self._held.values())))

    def _forget(self, answer_id: str) -> None:
        held = self._held.pop(answer_id, None)
        if held is not None:
            self._gone[answer_id] = held.owner
            if len(self._gone) > MAX_REMEMBERED:
                self._gone.popitem(last=False)

    def _make_room(self) -> None:
        if len(self._held) < MAX_OVER:
            return
        over = [held.stream for held in self._held.values() if held.stream.is_over]
        for stream in over[: max(0, len(over) - MAX_OVER + 1)]:
            stream.give_up()
