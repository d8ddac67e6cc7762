"""The retriever's routes: its own contract, the one that RL trainers speak, and what it serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict, cast

import orjson
from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import Response
from pydantic import SecretStr

from parallelsearch.rollout.types import Passage
from parallelsearch.schemas.retrieval import IndexModel, Method, ReloadResponse, RetrieveRequest, RetrieveResponse
from parallelsearch.schemas.wire_retrieve import WireRetrieveRequest, WireRetrieveResponse
from retriever.batcher import Timings
from retriever.service import Retrieved, Retriever
from servicekit.auth import require_admin
from servicekit.bodies import body_schema, read_body

router = APIRouter(tags=["retrieval"])


class State(TypedDict):
    """What the lifespan yields: the typed state of every request."""

    retriever: Retriever
    default_top_k: int
    admin_token: SecretStr | None


def state_of(request: Request) -> State:
    return cast(State, request.state._state)


CurrentState = Annotated[State, Depends(state_of)]
DeadlineMs = Annotated[int | None, Header(alias="X-Deadline-Ms", ge=1, description="When the caller stops waiting.")]


@router.post("/v1/retrieve", response_model=RetrieveResponse, openapi_extra=body_schema(RetrieveRequest))
async def retrieve(request: Request, state: CurrentState, deadline_ms: DeadlineMs = None) -> Response:
    """The passages nearest to each query, best first."""
    body = await read_body(request, RetrieveRequest)
    found = await _retrieve(request, state, body.queries, body.top_k, body.method, deadline_ms)
    results = [[_passage(each) for each in row] for row in found.rows]
    return _json({"results": results, "index": found.index.model_dump()}, found.timings)


@router.post("/retrieve", response_model=WireRetrieveResponse, openapi_extra=body_schema(WireRetrieveRequest))
async def retrieve_for_trainers(request: Request, state: CurrentState, deadline_ms: DeadlineMs = None) -> Response:
    """The same search in the shapes that existing RL trainers read."""
    body = await read_body(request, WireRetrieveRequest)
    found = await _retrieve(request, state, body.texts, body.topk or state["default_top_k"], None, deadline_ms)
    shape = _scored_document if body.return_scores else _document
    rows = [[shape(each) for each in row] for row in found.rows]
    return _json({"result": rows, "results": rows}, found.timings)


@router.get("/v1/index")
async def index(state: CurrentState) -> IndexModel:
    """What is served: encoder, kind, passages, fingerprint."""
    return state["retriever"].described


@router.post("/v1/index/reload")
async def reload(request: Request, state: CurrentState) -> ReloadResponse:
    """Serves the index that is published now, without a failed request in between. Needs the admin token."""
    require_admin(request, state["admin_token"])
    reloaded = await state["retriever"].reload()
    return ReloadResponse(reloaded=reloaded, index=state["retriever"].described)


def _passage(passage: Passage) -> dict[str, object]:
    return {"id": passage.id, "title": passage.title, "text": passage.text, "score": passage.score, "url": passage.url}


def _document(passage: Passage) -> dict[str, object]:
    contents = f'"{passage.title}"\n{passage.text}'
    return {"id": passage.id, "title": passage.title, "text": passage.text, "contents": contents, "url": passage.url}


def _scored_document(passage: Passage) -> dict[str, object]:
    return {"document": _document(passage), "score": passage.score}


async def _retrieve(
    request: Request, state: State, queries: Sequence[str], top_k: int, method: Method | None, deadline_ms: int | None
) -> Retrieved:
    deadline_s = None if deadline_ms is None else deadline_ms / 1000
    return await state["retriever"].retrieve(queries, top_k, method, deadline_s=deadline_s, gone=request.is_disconnected)


def _json(body: dict[str, object], timings: Timings) -> Response:
    spent = (("queue", timings.queue_s), ("encode", timings.encode_s), ("search", timings.search_s), ("load", timings.load_s))
    headers = {"Server-Timing": ", ".join(f"{name};dur={seconds * 1000:.2f}" for name, seconds in spent)}
    return Response(orjson.dumps(body), headers=headers, media_type="application/json")
