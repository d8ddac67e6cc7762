"""What endpoints are given: the state that the lifespan made."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import Depends, Request

from gateway.service import AnswerService


class State(TypedDict):
    """Lives as long as the application."""

    answers: AnswerService


def answer_service(request: Request) -> AnswerService:
    service: AnswerService = request.state.answers
    return service


Answers = Annotated[AnswerService, Depends(answer_service)]
