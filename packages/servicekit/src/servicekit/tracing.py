"""OpenTelemetry traces of a service: off unless an OTLP endpoint or a file is named, and then at no cost."""

from __future__ import annotations

from pathlib import Path

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from servicekit.requests import QUIET_PATHS

PROPAGATOR = TraceContextTextMapPropagator()
NO_TRACER: trace.Tracer = trace.NoOpTracer()


class Tracing:
    """Makes the spans of one service. `tracer` makes none where nothing is configured."""

    def __init__(self, service: str, *, otlp_endpoint: str | None = None, file: Path | None = None) -> None:
        self._provider: TracerProvider | None = None
        self.tracer = NO_TRACER
        if otlp_endpoint is None and file is None:
            return
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": f"parallelsearch-{service}"}), shutdown_on_exit=False
        )
        if otlp_endpoint is not None:
            exporter = OTLPSpanExporter(f"{otlp_endpoint.rstrip('/')}/v1/traces")
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        if file is not None:
            # A line a write, since services may share the file.
            lines = ConsoleSpanExporter(out=file.open("a", buffering=1), formatter=lambda span: span.to_json(indent=None) + "\n")
            self._provider.add_span_processor(BatchSpanProcessor(lines))
        self.tracer = self._provider.get_tracer("parallelsearch")

    @property
    def is_on(self) -> bool:
        return self._provider is not None

    def close(self) -> None:
        """Sends what is left; blocks for as long as that takes."""
        if self._provider is not None:
            self._provider.shutdown()


class TraceMiddleware:
    """A span for each request but probes, which goes on with the caller's trace; its trace id goes into every log line."""

    def __init__(self, app: ASGIApp, *, tracer: trace.Tracer) -> None:
        self.app = app
        self.tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in QUIET_PATHS:
            await self.app(scope, receive, send)
            return
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        context = PROPAGATOR.extract(carrier)
        with self.tracer.start_as_current_span(scope["method"], context, trace.SpanKind.SERVER) as span:

            async def send_observed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            trace_id = trace.format_trace_id(span.get_span_context().trace_id)
            with structlog.contextvars.bound_contextvars(trace_id=trace_id):
                await self.app(scope, receive, send_observed)
            path = getattr(scope.get("route"), "path", "unmatched")
            span.update_name(f"{scope['method']} {path}")
            span.set_attribute("http.route", path)
