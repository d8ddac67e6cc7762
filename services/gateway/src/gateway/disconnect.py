"""Stops the work when the caller hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from fastapi import HTTPException, Request

from servicekit.requests import CLIENT_CLOSED_REQUEST

T = TypeVar("T")


async def unless_disconnected(request: Request, work: Coroutine[None, None, T]) -> T:
    """The result of `work`, which is cancelled, and with it its requests to upstreams, if the caller is gone before it is done."""
    serving = asyncio.current_task()
    assert serving is not None
    hung_up = False

    async def watch() -> None:
        nonlocal hung_up
        while (await request.receive())["type"] != "http.disconnect":
            pass
        hung_up = True
        serving.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if not hung_up:
            raise
        serving.uncancel()
        raise HTTPException(CLIENT_CLOSED_REQUEST, "The caller hung up.") from None
    finally:
        watching.cancel()
