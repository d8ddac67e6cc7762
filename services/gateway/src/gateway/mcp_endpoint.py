"""`/mcp`: the Model Context Protocol over streamable HTTP, without sessions, with the tools `search` and `answer`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway import metrics
from gateway.auth import ANONYMOUS, Authenticator, Caller
from gateway.limits import Limiter
from gateway.service import AnswerService
from parallelsearch.errors import ParallelSearchError
from parallelsearch.rollout.types import Mode
from parallelsearch.schemas.answers import AnswerRequest, Citation, Question, SearchRequest, SearchResponse
from parallelsearch.schemas.base import WireModel
from parallelsearch.schemas.retrieval import IndexName, Query
from servicekit.errors import invalid_arguments, render

PATH = "/mcp"
INSTRUCTIONS = (
    "Searches a corpus. `answer` takes a question, decomposes it and searches its parts in parallel; "
    "`search` runs several queries at once and gives back passages."
)
CALLER = "parallelsearch.caller"
ANY_NAME = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The authenticator has judged by which names it may be asked, and browsers ask before they send JSON elsewhere."""


class AnswerResult(WireModel):
    """What `answer` gives back: the answer, what it rests on, and what was searched for."""

    answer: str | None
    stop_reason: str
    citations: list[Citation]
    sub_queries: list[str]


class Server(MCPServer[Any]):
    """Says what is wrong with a call in the words of the HTTP API."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if isinstance(cause := error.__cause__, ValidationError):
                # Its cause tells the SDK to log the names of the fields alone.
                raise ToolError(invalid_arguments(cause, arguments)) from cause
            if isinstance(cause, ToolError):
                raise ToolError(str(cause)) from error
            raise


class McpEndpoint:
    """The tools as an ASGI route; to be run for as long as the application lives."""

    def __init__(self, answers: AnswerService, authenticator: Authenticator, limiter: Limiter) -> None:
        self._answers = answers
        self._server = Server("parallelsearch", instructions=INSTRUCTIONS, log_level="WARNING")
        self._server.tool(title="Search several queries at once")(self.search)
        self._server.tool(title="Answer a question")(self.answer)
        self._server.streamable_http_app(streamable_http_path=PATH, stateless_http=True, transport_security=ANY_NAME)
        # Without sessions there is nothing to listen for or to end: a GET would only hold one of its key's places.
        guarded = Guarded(self._server.session_manager.asgi_app, authenticator, limiter)
        self.route = Route(PATH, endpoint=guarded, methods=["POST"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._server.session_manager.run():
            yield

    async def search(
        self,
        queries: Annotated[
            list[Query], Field(description="Independent queries; all are searched at the same time.", max_length=64)
        ],
        top_k: Annotated[int, Field(description="Passages per query.", ge=1, le=20)] = 3,
        index: Annotated[IndexName | None, Field(description="The index that is searched; none: the default one.")] = None,
    ) -> SearchResponse:
        """Searches all queries at once and gives back the best passages of each."""
        with tool_errors():
            return await self._answers.search(SearchRequest(queries=queries, top_k=top_k, index=index))

    async def answer(
        self,
        context: Context[Any, Request],
        question: Annotated[Question, Field(description="A question, as simple or as many-sided as it is.")],
        mode: Annotated[Mode, Field(description="How sub-queries are searched.")] = Mode.PARALLEL,
        index: Annotated[IndexName | None, Field(description="The index that is searched; none: the default one.")] = None,
    ) -> AnswerResult:
        """Answers a question from the corpus, decomposing it into sub-queries that are searched in parallel."""
        with tool_errors():
            request = AnswerRequest(question=question, mode=mode, index=index)
            trajectory = await self._answers.answer(request, _caller(context).name)
        return AnswerResult(
            answer=trajectory.answer,
            stop_reason=trajectory.stop_reason.value,
            citations=trajectory.citations,
            sub_queries=[result.query for turn in trajectory.turns for result in turn.observation],
        )


@contextmanager
def tool_errors() -> Iterator[None]:
    """Failures in words that the model reads, marked as errors."""
    try:
        yield
    except ParallelSearchError as error:
        raise ToolError(error.detail) from error


def _caller(context: Context[Any, Request]) -> Caller:
    request = context.request_context.request
    caller: Caller = request.scope.get(CALLER, ANONYMOUS) if request is not None else ANONYMOUS
    return caller


class Guarded:
    """Lets known callers through, within their limits."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, limiter: Limiter) -> None:
        self._app = app
        self._authenticator = authenticator
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = self._authenticator.caller(Request(scope).headers)
            metrics.CALLS.labels(caller.name).inc()
            async with self._limiter.one_request(caller):
                await self._app({**scope, CALLER: caller}, receive, send)
        except ParallelSearchError as error:
            await render(error)(scope, receive, send)
