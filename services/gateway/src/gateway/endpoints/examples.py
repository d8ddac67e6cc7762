"""`GET /v1/examples`: questions of the demo corpus, for whoever tries the platform."""

from __future__ import annotations

import orjson
from fastapi import APIRouter

from parallelsearch.demo import demo_file
from parallelsearch.schemas.examples import Example, ExampleList


def examples_router() -> APIRouter:
    """The questions are read once, when the application is put together."""
    rows = [orjson.loads(line) for line in demo_file("questions.jsonl").read_bytes().splitlines()]
    found = ExampleList(examples=[Example(kind=row["kind"], question=row["question"]) for row in rows])
    router = APIRouter(prefix="/v1", tags=["examples"])

    @router.get("/examples")
    async def examples() -> ExampleList:
        """Questions that the demo corpus can answer, with how each falls apart."""
        return found

    return router
