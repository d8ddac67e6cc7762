"""Spans of a rollout: each turn, its generation, its search, and in parallel below it each sub-query; and calls to upstreams.

Texts stay out of spans unless asked for.
"""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import urlsplit

from opentelemetry import context as otel
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from parallelsearch.clients.pools import Answer, Call, Pool
from parallelsearch.rollout.observer import RolloutObserver
from parallelsearch.rollout.types import Search, SubQueryResult, Trajectory, Turn
from servicekit.tracing import PROPAGATOR


class TracingObserver(RolloutObserver):
    """Lives for one rollout. The current context is the open turn's or search's, so that calls to upstreams hang below it."""

    def __init__(self, tracer: Tracer, *, with_text: bool) -> None:
        self._tracer = tracer
        self._with_text = with_text
        self._base = otel.get_current()
        self._turn: Span | None = None
        self._search: Span | None = None
        self._search_started_ns = 0

    def turn_started(self, index: int, *, opened: bool) -> None:
        self._end_turn()
        self._turn = self._tracer.start_span("turn", self._base, attributes={"turn.index": index, "turn.opened": opened})
        otel.attach(set_span_in_context(self._turn, self._base))

    def turn_parsed(self, turn: Turn) -> None:
        if self._turn is None:
            return
        self._turn.set_attribute("turn.action", type(turn.action).__name__.lower())
        if self._with_text:
            self._turn.set_attribute("turn.text", turn.text)

    def search_started(self, turn: Turn) -> None:
        assert isinstance(turn.action, Search)
        self._search_started_ns = time.time_ns()
        self._search = self._tracer.start_span("search", attributes={"search.sub_queries": len(turn.action.queries)})
        otel.attach(set_span_in_context(self._search))

    def sub_query_landed(self, position: int, result: SubQueryResult) -> None:
        if self._search is None:
            return
        attributes: dict[str, str | int | bool] = {
            "sub_query.index": position,
            "sub_query.cached": result.cached,
            "sub_query.failed": result.failed,
            "sub_query.passages": len(result.passages),
        }
        if self._with_text:
            attributes["sub_query.text"] = result.query
        parent = set_span_in_context(self._search)
        span = self._tracer.start_span("sub_query", parent, attributes=attributes, start_time=self._search_started_ns)
        if result.failed:
            span.set_status(StatusCode.ERROR)
        span.end()

    def turn_observed(self, turn: Turn) -> None:
        self._end_search()

    def finished(self, trajectory: Trajectory) -> None:
        if self._turn is not None:
            self._turn.set_attribute("rollout.stop_reason", trajectory.stop_reason.value)
        self._end_turn()
        otel.attach(self._base)

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.end()
            self._search = None

    def _end_turn(self) -> None:
        self._end_search()
        if self._turn is not None:
            self._turn.end()
            self._turn = None


class TracedPool:
    """A span for each call to an upstream, until its answer begins; the upstream is told which trace it belongs to."""

    def __init__(self, inner: Pool, upstream: str, tracer: Tracer) -> None:
        self._inner = inner
        self._upstream = upstream
        self._tracer = tracer

    async def open(self, call: Call) -> Answer:
        name = f"{self._upstream} {call.method} {urlsplit(call.url).path}"
        with self._tracer.start_as_current_span(name, kind=SpanKind.CLIENT) as span:
            headers = dict(call.headers)
            PROPAGATOR.inject(headers)
            answer = await self._inner.open(replace(call, headers=headers))
            span.set_attribute("http.response.status_code", answer.status)
        return answer

    async def close(self) -> None:
        await self._inner.close()
