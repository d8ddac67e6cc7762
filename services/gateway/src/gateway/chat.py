"""Between a rollout and OpenAI's chat completions: the trace as text, whole completions, and chunks from events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass, field

from parallelsearch.rollout.types import Mode, StopReason
from parallelsearch.schemas.answers import AnswerRequest, ObservationModel, SearchActionModel, TrajectoryModel, TurnModel
from parallelsearch.schemas.chat import (
    AssistantMessage,
    ChatChunk,
    ChatCompletion,
    ChatErrorBody,
    ChatRequest,
    ChatUsage,
    Choice,
    ChunkChoice,
    Delta,
    Extension,
    FinishReason,
)
from parallelsearch.schemas.events import Done, Event, Failed, ReasoningDelta, SearchResultLanded, SearchStarted, TurnStarted

MODES = {"parallelsearch": Mode.PARALLEL, "parallelsearch-sequential": Mode.SEQUENTIAL}
"""The models of the OpenAI-compatible API and how each asks the policy to search."""
LAST_MESSAGE_NOTICE = "Only the last user message was used as the question."
CONDENSED_NOTICE = "The conversation was condensed into: {}"
SEEDS = 2**31
_CUT_SHORT = {StopReason.TURN_LIMIT, StopReason.CONTEXT_LIMIT}


def of_model(name: str) -> tuple[str, str]:
    """A model may name its index: `parallelsearch:NAME`."""
    model, _, index = name.partition(":")
    return model, index


def answer_request(chat: ChatRequest, question: str) -> AnswerRequest:
    """What a chat asks for.

    Raises:
        ValidationError: the last user message is no question.
    """
    model, index = of_model(chat.model)
    return AnswerRequest(
        question=question,
        mode=MODES[model],
        index=index or chat.index,
        filter=chat.filter,
        method=chat.method,
        temperature=chat.temperature or 0.0,
        seed=None if chat.seed is None else chat.seed % SEEDS,
        stream=bool(chat.stream),
    )


@dataclass(frozen=True, slots=True)
class Conversation:
    """What all parts of one response share."""

    model: str
    notice: str
    include_usage: bool
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, chat: ChatRequest, condensed: str | None = None) -> Conversation:
        """`condensed` is the question that the whole conversation was turned into, if it was."""
        include_usage = chat.stream_options is not None and bool(chat.stream_options.include_usage)
        notice = LAST_MESSAGE_NOTICE if chat.is_follow_up else ""
        return cls(chat.model, CONDENSED_NOTICE.format(condensed) if condensed else notice, include_usage)

    def completion(self, trajectory: TrajectoryModel) -> ChatCompletion:
        message = AssistantMessage(content=trajectory.answer or "", reasoning_content=self._trace(trajectory))
        return ChatCompletion(
            id=_completion_id(trajectory.id),
            created=self.created,
            model=self.model,
            choices=[Choice(message=message, finish_reason=_finish_reason(trajectory))],
            usage=_usage(trajectory),
            parallelsearch=self._extension(trajectory),
        )

    async def chunks(self, events: AsyncIterable[Event]) -> AsyncGenerator[ChatChunk | ChatErrorBody]:
        """Reasoning as it comes about; the answer once it is certain, so that nothing is ever taken back."""
        answer_id = ""
        async for event in events:
            match event:
                case TurnStarted(id=answer_id, turn=0):
                    for chunk in self._begin(answer_id):
                        yield chunk
                case Done():
                    for chunk in (*(() if answer_id else self._begin(event.id)), *self._end(event)):
                        yield chunk
                case Failed():
                    yield ChatErrorBody.of(event.status, event.detail, code=event.type.rpartition(":")[2])
                case _ if text := _trace_of_event(event):
                    yield self._chunk(answer_id, Delta(reasoning_content=text))

    def _begin(self, answer_id: str) -> Iterator[ChatChunk]:
        yield self._chunk(answer_id, Delta(role="assistant", content=""))
        if self.notice:
            yield self._chunk(answer_id, Delta(reasoning_content=f"{self.notice}\n\n"))

    def _end(self, done: Done) -> Iterator[ChatChunk]:
        yield self._chunk(done.id, Delta(content=done.answer or ""))
        yield self._chunk(done.id, Delta(), _finish_reason(done), self._extension(done))
        if self.include_usage:
            yield ChatChunk(id=_completion_id(done.id), created=self.created, model=self.model, choices=[], usage=_usage(done))

    def _chunk(
        self, answer_id: str, delta: Delta, finish_reason: FinishReason | None = None, extension: Extension | None = None
    ) -> ChatChunk:
        choices = [ChunkChoice(delta=delta, finish_reason=finish_reason)]
        return ChatChunk(
            id=_completion_id(answer_id), created=self.created, model=self.model, choices=choices, parallelsearch=extension
        )

    def _extension(self, trajectory: TrajectoryModel) -> Extension:
        return Extension(
            answer_id=trajectory.id,
            stop_reason=trajectory.stop_reason.value,
            notice=self.notice,
            citations=trajectory.citations,
        )

    def _trace(self, trajectory: TrajectoryModel) -> str:
        notice = f"{self.notice}\n\n" if self.notice else ""
        return notice + "".join(piece for turn in trajectory.turns for piece in _trace_of_turn(turn))


def _trace_of_turn(turn: TurnModel) -> Iterator[str]:
    if turn.index > 0:
        yield "\n\n"
    yield turn.reasoning
    if isinstance(turn.action, SearchActionModel) and turn.observation:
        yield _searching(turn.action.queries)
        yield from map(_found, turn.observation)


def _trace_of_event(event: Event) -> str:
    match event:
        case TurnStarted():
            return "\n\n"
        case ReasoningDelta(text=text):
            return text
        case SearchStarted(queries=queries):
            return _searching(queries)
        case SearchResultLanded():
            return _found(event)
    return ""


def _searching(queries: list[str]) -> str:
    return "\n\nSearching:" + "".join(f"\n- {query}" for query in queries) + "\n"


def _found(result: ObservationModel) -> str:
    if result.failed:
        return f"\n{result.query} → the search failed"
    titles = "; ".join(dict.fromkeys(passage.title for passage in result.passages))
    return f"\n{result.query} → {titles or 'nothing'}"


def _completion_id(answer_id: str) -> str:
    return f"chatcmpl-{answer_id}"


def _finish_reason(trajectory: TrajectoryModel) -> FinishReason:
    return "length" if trajectory.stop_reason in _CUT_SHORT else "stop"


def _usage(trajectory: TrajectoryModel) -> ChatUsage:
    usage = trajectory.usage
    return ChatUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
