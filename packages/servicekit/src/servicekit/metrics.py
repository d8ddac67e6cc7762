"""Prometheus metrics that every service has, and `/metrics`. Names start with `parallelsearch_`."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest

SECONDS_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120)

REQUESTS = Counter("parallelsearch_http_requests_total", "HTTP requests", ["method", "path", "status"])
REQUEST_SECONDS = Histogram(
    "parallelsearch_http_request_seconds", "Seconds of an HTTP request", ["method", "path"], buckets=SECONDS_BUCKETS
)

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
async def metrics() -> Response:
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
