"""What `ask` and `search` do: one request to the gateway, shown or printed as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console

from parallelsearch.cli import failures, here, trace
from parallelsearch.clients.answers import AnswersClient, GatewayProblem
from parallelsearch.errors import InvalidInput
from parallelsearch.rollout.types import StopReason
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest

B = TypeVar("B", bound=BaseModel)
A = TypeVar("A", bound=BaseModel)


def checked(model: type[B], fields: Mapping[str, Any]) -> B:
    """The request body.

    Raises:
        InvalidInput: a field is wrong; it is named.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].removeprefix('Value error, ')}" for fault in error.errors())
        raise InvalidInput("; ".join(faults)) from None


def within(index: str | None, source: str | None, after: str | None, before: str | None) -> dict[str, Any]:
    """The fields that say where is searched."""
    given = {name: value for name, value in (("source", source), ("after", after), ("before", before)) if value is not None}
    return ({"index": index} if index is not None else {}) | ({"filter": given} if given else {})


def call(url: str | None, request: Callable[[AnswersClient], Awaitable[A]]) -> A:
    """Makes one request, with a sign of life on a terminal while it lasts."""

    async def once() -> A:
        client = AnswersClient(here.gateway_url(url), api_key=here.api_key())
        try:
            return await request(client)
        finally:
            await client.close()

    console = Console(stderr=True)
    with console.status("asking …") if console.is_terminal else nullcontext():
        return asyncio.run(once())


def print_json(body: BaseModel | dict[str, Any]) -> None:
    text = body.model_dump_json(indent=2) if isinstance(body, BaseModel) else json.dumps(body, indent=2, ensure_ascii=False)
    sys.stdout.write(text + "\n")


def ask(fields: Mapping[str, Any], url: str | None, *, as_json: bool) -> int:
    request = checked(AnswerRequest, fields)
    try:
        trajectory = call(url, lambda client: client.answer(request))
    except GatewayProblem as error:
        if as_json:
            print_json(error.body)
        elif error.trajectory:
            trace.draw(Console(), error.trajectory)
        return failures.report(error)
    if as_json:
        print_json(trajectory)
    else:
        trace.draw(Console(), trajectory)
    return 0 if trajectory.stop_reason is StopReason.ANSWERED else failures.NOT_ANSWERED


def search(fields: Mapping[str, Any], url: str | None, *, as_json: bool) -> int:
    request = checked(SearchRequest, fields)
    found = call(url, lambda client: client.search(request))
    if as_json:
        print_json(found)
    else:
        trace.draw_results(Console(), found.results)
    return failures.NOT_ANSWERED if any(result.failed for result in found.results) else 0
