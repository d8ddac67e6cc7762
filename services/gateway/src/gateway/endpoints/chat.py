"""`POST /v1/chat/completions` and `GET /v1/models`: what OpenAI's clients speak. `openai_errors` gives errors OpenAI's shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import ValidationError

from gateway.chat import MODES, Conversation, answer_request, of_model
from gateway.dependencies import Answers, LimitedCaller, Settings, limited_caller
from gateway.disconnect import unless_disconnected
from gateway.endpoints.sse import data_only, stream_response
from gateway.service import AnswerService
from gateway.streaming import AnswerStream
from parallelsearch.errors import InvalidInput, NotFound
from parallelsearch.schemas.chat import ChatCompletion, ChatErrorBody, ChatRequest, ModelCard, ModelList
from servicekit.errors import said

router = APIRouter(prefix="/v1", tags=["openai"], dependencies=[Depends(limited_caller)])
ERRORS: dict[int | str, dict[str, Any]] = {status: {"model": ChatErrorBody} for status in (404, 422, 503, 504)}


@router.post("/chat/completions", response_model=ChatCompletion, responses=ERRORS)
async def complete(body: ChatRequest, request: Request, answers: Answers, settings: Settings, caller: LimitedCaller) -> Response:
    """Answers the last user message. The trace is in `reasoning_content`; `parallelsearch` holds what OpenAI's shape does not."""
    _check_model(body.model)
    _check_question(body)
    condensed = await unless_disconnected(request, answers.standalone_question(body))
    asked = answer_request(body, condensed or body.question)
    conversation = Conversation.of(body, condensed)
    if body.stream:
        stream = await unless_disconnected(request, answers.stream(asked, caller.name).started())
        return stream_response(_written(stream, conversation), stream, settings)
    trajectory = await unless_disconnected(request, answers.answer(asked, caller.name))
    return Response(conversation.completion(trajectory).model_dump_json(), media_type="application/json")


@router.get("/models")
async def models(answers: Answers) -> ModelList:
    """The models that can be asked: ways to search, over the one policy that is served; and the same for each index with a name."""
    return ModelList(data=[ModelCard(id=name) for name in _names(answers)])


@router.get("/models/{model}", responses={404: ERRORS[404]})
async def model(model: str, answers: Answers) -> ModelCard:
    if model not in _names(answers):
        raise _no_model(model, _names(answers))
    return ModelCard(id=model)


def _names(answers: AnswerService) -> list[str]:
    return [*MODES, *(f"{model}:{index}" for index in answers.indexes for model in MODES)]


async def _written(stream: AnswerStream, conversation: Conversation) -> AsyncIterator[bytes]:
    async with aclosing(stream.events()) as events:
        async for chunk in conversation.chunks(numbered.event async for numbered in events):
            yield data_only(chunk.model_dump_json())
    yield data_only("[DONE]")


def _check_model(model: str) -> None:
    if of_model(model)[0] not in MODES:
        raise _no_model(model, MODES)


def _no_model(model: str, served: Iterable[str]) -> NotFound:
    fault = {"field": "model", "message": "is not served here"}
    return NotFound(f"The model {model!r} is not served here; there are: {', '.join(served)}.", extensions={"errors": [fault]})


def _check_question(body: ChatRequest) -> None:
    try:
        answer_request(body, body.question)
    except ValidationError as error:
        wrong = error.errors()[0]
        field, part = ("model", "its index") if wrong["loc"] == ("index",) else ("messages", "the last user message")
        raise InvalidInput(f"{field}: {part}: {said(wrong)}") from error
