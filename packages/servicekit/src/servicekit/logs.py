"""Structured logs to standard error: JSON, or coloured text on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

Format = Literal["json", "text"]


def configure_logs(level: str = "INFO", format_: Format = "json") -> None:
    """Sets up structlog for the process; the standard library's warnings go the same way."""
    renderer = structlog.processors.JSONRenderer() if format_ == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
