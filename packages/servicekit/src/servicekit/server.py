"""Runs an application with uvicorn, the same way for every service."""

from __future__ import annotations

import gc
import math

import uvicorn
from fastapi import FastAPI

from servicekit.logs import configure_logs
from servicekit.one_write import OneWriteProtocol
from servicekit.settings import ServiceSettings

YOUNG_OBJECTS = 50_000
"""So many new objects stay before the young ones are searched for cycles. A request leaves next to none: reference counts free
what it used. At Python's 700 a thousand requests in flight are walked over and over, which takes a fifth of the processor."""


def serve(app: FastAPI, settings: ServiceSettings) -> None:
    """Blocks until SIGTERM or SIGINT; accepted requests are answered within `shutdown_grace_s`."""
    configure_logs(settings.log_level, settings.log_format)
    # What was imported and built lives as long as the process; a collection that walks it all takes a tenth of a second.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        http=OneWriteProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_s),  # whole seconds, of which 0 is none
        timeout_keep_alive=75,
    )
