"""The OpenAI-compatible part of the gateway's contract: chat completions and models.

Requests tolerate what OpenAI's API has and we have no use for (tools, penalties, log probabilities …).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_serializer,
)

from parallelsearch.schemas.answers import Citation
from parallelsearch.schemas.base import CleanText, WireModel
from parallelsearch.schemas.retrieval import FilterModel, IndexName, Method

MAX_MESSAGES = 1_000


class Tolerant(BaseModel):
    """A request body of OpenAI's: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ContentPart(Tolerant):
    type: str
    text: CleanText = ""


def _parts(content: object) -> object:
    """A text as the one part that it is, so that a fault in it is a fault of one field and not of two possible ones."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


Content = Annotated[list[ContentPart] | None, BeforeValidator(_parts, json_schema_input_type=str | list[ContentPart] | None)]


class Message(Tolerant):
    role: str
    content: Content = None

    @property
    def text(self) -> str:
        """The text parts, joined; images and the like have none."""
        return "\n".join(part.text for part in self.content or () if part.type == "text")


class StreamOptions(Tolerant):
    include_usage: StrictBool | None = None


class ChatRequest(Tolerant):
    model: Annotated[str, Field(max_length=256)]
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    temperature: Annotated[StrictFloat, Field(ge=0.0, le=2.0)] | None = None
    seed: StrictInt | None = Field(default=None, ge=-(2**63), le=2**63 - 1, description="Taken modulo 2³¹.")
    n: Literal[1] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    index: IndexName | None = None
    filter: FilterModel | None = None
    method: Method | None = None

    @property
    def question(self) -> str:
        """The last user message; empty if there is none."""
        return next((message.text for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def is_follow_up(self) -> bool:
        """Whether there is more to the conversation than its last user message (what a system says aside)."""
        return sum(message.role not in {"system", "developer"} for message in self.messages) > 1


class ChatUsage(WireModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class Extension(WireModel):
    """What OpenAI's shape has no place for."""

    answer_id: str
    stop_reason: str
    notice: str = ""
    citations: list[Citation] = []


class AssistantMessage(WireModel):
    role: Literal["assistant"] = "assistant"
    content: str
    reasoning_content: str = ""


FinishReason = Literal["stop", "length"]


class Choice(WireModel):
    index: int = 0
    message: AssistantMessage
    finish_reason: FinishReason
    logprobs: None = None


class ChatCompletion(WireModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage
    parallelsearch: Extension


class ModelCard(WireModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "parallelsearch"


class ModelList(WireModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class Delta(WireModel):
    """Fields left out are not sent."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None}


class ChunkChoice(WireModel):
    index: int = 0
    delta: Delta
    finish_reason: FinishReason | None = None


class ChatChunk(WireModel):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None
    parallelsearch: Extension | None = None


class ChatError(WireModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ChatErrorBody(WireModel):
    """OpenAI's form of an error."""

    error: ChatError

    @classmethod
    def of(cls, status: int, message: str, *, param: str | None = None, code: Any = None) -> ChatErrorBody:
        return cls(error=ChatError(message=message, type=_error_type(status), param=param, code=code))


ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


def _error_type(status: int) -> str:
    return ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
