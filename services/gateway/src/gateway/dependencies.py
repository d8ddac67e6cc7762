"""What endpoints are given: the state that the lifespan made."""

from __future__ import annotations

from typing import Annotated, TypedDict

from fastapi import Depends, Request

from gateway.service import AnswerService
from gateway.settings import GatewaySettings


class State(TypedDict):
    """Lives as long as the application."""

    settings: GatewaySettings
    answers: AnswerService


def answer_service(request: Request) -> AnswerService:
    service: AnswerService = request.state.answers
    return service


def gateway_settings(request: Request) -> GatewaySettings:
    settings: GatewaySettings = request.state.settings
    return settings


Settings = Annotated[GatewaySettings, Depends(gateway_settings)]
Answers = Annotated[AnswerService, Depends(answer_service)]
