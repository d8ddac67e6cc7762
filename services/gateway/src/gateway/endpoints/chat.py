"""`POST /v1/chat/completions` and `GET /v1/models`: what OpenAI's clients speak. Errors have OpenAI's shape here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from gateway.chat import MODES, Conversation, answer_request, of_model
from gateway.dependencies import Answers, LimitedCaller, Settings, limited_caller
from gateway.disconnect import unless_disconnected
from gateway.endpoints.sse import data_only, stream_response
from gateway.service import AnswerService
from gateway.streaming import AnswerStream
from parallelsearch.errors import InvalidInput, NotFound, ParallelSearchError
from parallelsearch.schemas.chat import ChatCompletion, ChatErrorBody, ChatRequest, ModelCard, ModelList
from servicekit.errors import error_headers, invalid_fields, is_unreadable, said


class OpenAIRoute(APIRoute):
    """Renders errors as OpenAI's clients expect them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                fault = invalid_fields(error)[0]
                return _error(422, f"{fault['field']}: {fault['message']}", param=fault["field"])
            except ParallelSearchError as error:
                return _error(
                    error.status,
                    error.detail,
                    code=error.code,
                    param=_field(error),
                    headers=error_headers(error.status, error.retry_after_s),
                )
            except HTTPException as error:
                if is_unreadable(error):
                    return _error(422, "body: is not JSON in UTF-8", param="body")
                return _error(error.status_code, str(error.detail), headers=dict(error.headers or {}))

        return handler


router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAIRoute, dependencies=[Depends(limited_caller)])
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


def _field(error: ParallelSearchError) -> str | None:
    errors = error.extensions.get("errors")
    return str(errors[0]["field"]) if errors else None


def _error(
    status: int, message: str, *, param: str | None = None, code: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    body = ChatErrorBody.of(status, message, param=param, code=code)
    return Response(body.model_dump_json(), status, headers, media_type="application/json")
