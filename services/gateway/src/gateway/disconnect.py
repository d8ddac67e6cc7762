"""Stops the work when the caller hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from fastapi import HTTPException, Request

T = TypeVar("T")
CLIENT_CLOSED_REQUEST = 499


async def unless_disconnected(request: Request, work: Coroutine[None, None, T]) -> T:
    """The result of `work`, which is cancelled, and with it its requests to upstreams, if the caller is gone before it is done."""
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPException(CLIENT_CLOSED_REQUEST, "The caller hung up.")
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
