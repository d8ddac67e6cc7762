"""The client of the gateway: answers, whole or as they come about, and searches over its public API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError

from parallelsearch.clients.http import LONGEST_RETRY_AFTER_S, checked_token, create_client, named, said, without_password
from parallelsearch.errors import ParallelSearchError, UpstreamUnavailable
from parallelsearch.schemas.answers import AnswerRequest, SearchRequest, SearchResponse, TrajectoryModel
from parallelsearch.schemas.events import EVENT, Done, Event, Failed, TurnStarted

M = TypeVar("M", bound=BaseModel)
NAME = "gateway"
MARGIN_S = 30.0
"""What the gateway may take beyond the deadline of an answer."""
SEARCH_TIMEOUT_S = 60.0
RESUME_AFTER_S = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits before each further try to go on with a stream, after failures in a row."""
MAX_EVENT_BYTES = 64 << 20
"""`done` carries every passage of every turn."""


class GatewayUnreachable(UpstreamUnavailable):
    """Nobody listens at the gateway's address."""

    code, title = "gateway-unreachable", "Gateway unreachable"


class GatewayProblem(ParallelSearchError):
    """The gateway refused or failed, in its own words. `trajectory` is how far a failed rollout came, if it did."""

    code, title = "gateway-problem", "The gateway reports a problem"

    def __init__(self, answered: int, body: dict[str, Any], retry_after_s: float | None = None) -> None:
        super().__init__(str(body.get("detail") or body.get("title") or f"HTTP {answered}"), retry_after_s=retry_after_s)
        self.answered = answered
        self.body = body
        self.request_id = str(body.get("request_id", ""))

    @property
    def trajectory(self) -> TrajectoryModel | None:
        try:
            return TrajectoryModel.model_validate(self.body["trajectory"], extra="ignore")
        except (KeyError, ValidationError):
            return None


class UnknownEvent(UpstreamUnavailable):
    """The gateway sent what this release cannot read; asking again would bring it again."""


@dataclass(slots=True)
class _Place:
    """How far a stream has been read, and how often in a row going on from there has failed."""

    answer_id: str = ""
    last_id: str = ""
    failures: int = 0

    @property
    def can_be_found(self) -> bool:
        return bool(self.answer_id and self.last_id)

    def repeats(self, event_id: str) -> bool:
        """Whether an event of this id was read before: from a server that begins again instead of going on."""
        return event_id.isdecimal() and self.last_id.isdecimal() and len(event_id) < 20 and int(event_id) <= int(self.last_id)

    def reached(self, event: Event, event_id: str) -> None:
        self.last_id, self.failures = event_id if event_id.isascii() and event_id.isprintable() else "", 0
        if isinstance(event, TurnStarted):
            self.answer_id = event.id


class AnswersClient:
    """Talks to one gateway; `api_key` goes along as a bearer token where one is given.

    What a newer gateway says besides is passed over. An address or a key that cannot be used is InvalidInput.
    """

    def __init__(self, base_url: str, *, api_key: str = "", transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._url = without_password(base_url)
        self._http = create_client(base_url, timeout_s=SEARCH_TIMEOUT_S, transport=transport)
        key = {"authorization": f"Bearer {checked_token(api_key, 'PARALLELSEARCH_API_KEY')}"} if api_key else {}
        self._headers = {"content-type": "application/json"} | key

    async def close(self) -> None:
        await self._http.aclose()

    async def answer(self, request: AnswerRequest) -> TrajectoryModel:
        """Answers a question.

        Raises:
            GatewayUnreachable: nobody listens there.
            GatewayProblem: the gateway refused the request, or the rollout failed.
            UpstreamUnavailable: the answer did not come in time or cannot be understood.
        """
        return await self._post("v1/answers", request, TrajectoryModel, request.deadline_s + MARGIN_S)

    async def stream(self, request: AnswerRequest) -> AsyncGenerator[Event]:
        """The events of an answer as they happen, the last one `Done`. Closing the generator leaves; the rollout ends soon after.

        A connection that is lost on the way is made again, and the stream goes on with the event that comes next.

        Raises:
            GatewayProblem: the gateway refused the request, the rollout failed, or the stream is not held any more.
            GatewayUnreachable, UpstreamUnavailable: as `answer` does; also for a stream that breaks off and cannot be gone on with.
        """
        content = request.model_copy(update={"stream": True}).model_dump_json(exclude_unset=True)
        place = _Place()
        while True:
            try:
                async with aclosing(self._events(content, place)) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, Done):
                            return
            except UnknownEvent:
                raise
            except UpstreamUnavailable:
                if not place.can_be_found or place.failures >= len(RESUME_AFTER_S):
                    raise
            await asyncio.sleep(RESUME_AFTER_S[place.failures])
            place.failures += 1

    async def _events(self, content: str, place: _Place) -> AsyncGenerator[Event]:
        """Those of a new answer, or those that follow `place`, which is kept up to date."""
        begin = replace(place)
        async with named(NAME), self._connection(content, place) as source:
            if not source.response.is_success:
                await source.response.aread()
                raise problem(source.response)
            async for sent in source:
                if begin.repeats(sent.id):
                    continue
                try:
                    event = EVENT.validate_json(sent.data, extra="ignore")
                except ValidationError as error:
                    raise UnknownEvent("The gateway sent an event that this release does not know.") from error
                if isinstance(event, Failed):
                    raise GatewayProblem(event.status, event.model_dump(mode="json"))
                place.reached(event, sent.id)
                yield event
        raise UpstreamUnavailable("The gateway's stream broke off before the answer was done.")

    @asynccontextmanager
    async def _connection(self, content: str, place: _Place) -> AsyncIterator[httpx2.EventSource]:
        if place.can_be_found:
            headers = self._headers | {"last-event-id": place.last_id}
            asked = self._http.sse(
                f"v1/answers/{quote(place.answer_id, safe='')}/events", headers=headers, max_event_size=MAX_EVENT_BYTES
            )
        else:
            asked = self._http.sse(
                "v1/answers", method="POST", content=content, headers=self._headers, max_event_size=MAX_EVENT_BYTES
            )
        try:
            async with asked as source:
                yield source
        except httpx2.ConnectError as error:
            raise GatewayUnreachable(f"Nobody answers at {self._url}.") from error

    async def search(self, request: SearchRequest) -> SearchResponse:
        """Searches all queries at once; raises as `answer` does."""
        return await self._post("v1/search", request, SearchResponse, SEARCH_TIMEOUT_S)

    async def _post(self, path: str, body: BaseModel, answer: type[M], timeout_s: float) -> M:
        async with named(NAME):
            try:
                content = body.model_dump_json(exclude_unset=True)
                response = await self._http.post(path, content=content, headers=self._headers, timeout=timeout_s)
            except httpx2.ConnectError as error:
                raise GatewayUnreachable(f"Nobody answers at {self._url}.") from error
        if not response.is_success:
            raise problem(response)
        try:
            return answer.model_validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise UpstreamUnavailable(f"The answer of {self._url}/{path} is not in the form of this release.") from error


def problem(response: httpx2.Response) -> GatewayProblem:
    """The problem+json that the gateway answered, or what can be made of another body."""
    body = said(response)
    if not isinstance(body, dict):
        body = {}
    fallback = {
        "detail": f"{without_password(response.request.url)} answered {response.status_code} {response.reason_phrase}.".strip()
    }
    request_id = {"request_id": response.headers.get("x-request-id", "")}
    return GatewayProblem(response.status_code, fallback | request_id | body, _retry_after_s(response))


def _retry_after_s(response: httpx2.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return min(float(value), LONGEST_RETRY_AFTER_S) if value.isdecimal() else None
