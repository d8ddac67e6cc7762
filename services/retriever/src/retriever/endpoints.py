"""The retriever's routes: its own contract, the one that RL trainers speak, and what it serves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict, cast

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import SecretStr

from parallelsearch.errors import InvalidInput
from parallelsearch.rollout.types import EVERYWHERE, Passage, Scope
from parallelsearch.schemas.encoding import EncodeRequest
from parallelsearch.schemas.retrieval import (
    IndexesModel,
    IndexModel,
    Method,
    ReloadResponse,
    RetrieveRequest,
    RetrieveResponse,
    scope_of,
)
from parallelsearch.schemas.wire_retrieve import WireRetrieveRequest, WireRetrieveResponse
from retriever.batcher import Timings
from retriever.documents.jobs import DocumentJobs
from retriever.service import Retrieved, Retriever
from servicekit.auth import require_admin
from servicekit.bodies import body_schema, read_body
from servicekit.errors import documented
from servicekit.routes import DirectRoute

router = APIRouter(tags=["retrieval"])
direct = APIRouter(tags=["retrieval"], route_class=DirectRoute)
"""What is asked thousands of times a second."""

PROBLEMS = documented(
    {
        413: "The body is too large.",
        422: "The request is wrong; `errors` names each field.",
        499: "The caller hung up.",
        503: "Too many queries wait; `Retry-After` says when to try again.",
        504: "Not answered by the deadline.",
    }
)
RELOAD_PROBLEMS = documented(
    {
        401: "The admin token is missing or wrong.",
        403: "No admin token is configured.",
        500: "The published index cannot be served; the old one still is.",
        503: "An index is being loaded already.",
    }
)
ENCODE_PROBLEMS = documented(
    {
        401: "The admin token is missing or wrong.",
        403: "No admin token is configured.",
        409: "No encoder that is loaded here gives these vectors.",
        422: "The request is wrong; `errors` names each field.",
    }
)

_MILLISECONDS = re.compile("[1-9][0-9]{0,11}")
DEADLINE_SCHEMA = {
    "parameters": [
        {
            "in": "header",
            "name": "X-Deadline-Ms",
            "description": "When the caller stops waiting; what is not answered by then is dropped.",
            "schema": {"type": "integer", "minimum": 1},
        }
    ]
}


class State(TypedDict):
    """What the lifespan yields: the typed state of every request."""

    retriever: Retriever
    jobs: DocumentJobs
    default_top_k: int
    admin_token: SecretStr | None


def state_of(request: Request) -> State:
    return cast(State, request.state._state)


@direct.post(
    "/v1/retrieve",
    response_model=RetrieveResponse,
    responses=PROBLEMS,
    openapi_extra=body_schema(RetrieveRequest) | DEADLINE_SCHEMA,
)
async def retrieve(request: Request) -> Response:
    """The passages nearest to each query, best first."""
    body = await read_body(request, RetrieveRequest)
    found = await _retrieve(request, body.queries, body.top_k, body.method, scope_of(body.index, body.filter))
    return _json(b'{"results":%b,"index":%b}' % (orjson.dumps(found.rows), found.index.model_dump_json().encode()), found.timings)


@direct.post(
    "/retrieve",
    response_model=WireRetrieveResponse,
    responses=PROBLEMS,
    openapi_extra=body_schema(WireRetrieveRequest) | DEADLINE_SCHEMA,
)
async def retrieve_for_trainers(request: Request) -> Response:
    """The same search in the shapes that existing RL trainers read."""
    body = await read_body(request, WireRetrieveRequest)
    found = await _retrieve(request, body.texts, body.topk or state_of(request)["default_top_k"], None)
    shape = _scored_document if body.return_scores else _document
    rows = orjson.dumps([[shape(each) for each in row] for row in found.rows])
    return _json(b'{"result":%b,"results":%b}' % (rows, rows), found.timings)


@router.get("/v1/index")
async def index(request: Request) -> IndexModel:
    """What is served: encoder, kind, passages, fingerprint."""
    return state_of(request)["retriever"].described


@router.post("/v1/index/reload", responses=RELOAD_PROBLEMS)
async def reload(request: Request) -> ReloadResponse:
    """Serves the index that is published now, without a failed request in between. Needs the admin token."""
    state = state_of(request)
    require_admin(request, state["admin_token"])
    reloaded = await state["retriever"].reload()
    return ReloadResponse(reloaded=reloaded, index=state["retriever"].described)


@router.get("/v1/indexes")
async def indexes(request: Request) -> IndexesModel:
    """Every index that is served, the default one first."""
    return state_of(request)["retriever"].indexes


@router.post("/v1/indexes/{name}/reload", responses=RELOAD_PROBLEMS | documented({422: "No index of that name is published."}))
async def reload_named(request: Request, name: str) -> ReloadResponse:
    """Serves what is published under this name now, also if nothing was before. Needs the admin token."""
    state = state_of(request)
    require_admin(request, state["admin_token"])
    reloaded = await state["retriever"].reload(name)
    return ReloadResponse(reloaded=reloaded, index=state["retriever"].describe(name))


@router.post(
    "/v1/encode",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **ENCODE_PROBLEMS},
    openapi_extra=body_schema(EncodeRequest),
)
async def encode(request: Request) -> Response:
    """Vectors for an index that is being changed: float32, little endian, row after row. Needs the admin token."""
    state = state_of(request)
    require_admin(request, state["admin_token"])
    body = await read_body(request, EncodeRequest)
    vectors = await state["retriever"].encode(body.encoder, body.precision, body.what, body.texts)
    return Response(vectors.astype("<f4", copy=False).tobytes(), media_type="application/octet-stream")


def _document(passage: Passage) -> dict[str, object]:
    contents = f'"{passage.title}"\n{passage.text}'
    return {"id": passage.id, "title": passage.title, "text": passage.text, "contents": contents, "url": passage.url}


def _scored_document(passage: Passage) -> dict[str, object]:
    return {"document": _document(passage), "score": passage.score}


async def _retrieve(
    request: Request, queries: Sequence[str], top_k: int, method: Method | None, scope: Scope = EVERYWHERE
) -> Retrieved:
    deadline_s = _deadline_s(request.headers.get("x-deadline-ms"))
    retriever = state_of(request)["retriever"]
    return await retriever.retrieve(queries, top_k, method, scope, deadline_s=deadline_s, gone=request.is_disconnected)


def _deadline_s(header: str | None) -> float | None:
    if header is None:
        return None
    if not _MILLISECONDS.fullmatch(header):
        raise InvalidInput("X-Deadline-Ms: must be a whole number of milliseconds, at least 1 and of at most 12 digits")
    return int(header) / 1000


def _json(body: bytes, timings: Timings) -> Response:
    spent = (("queue", timings.queue_s), ("encode", timings.encode_s), ("search", timings.search_s), ("load", timings.load_s))
    headers = {"Server-Timing": ", ".join(f"{name};dur={seconds * 1000:.2f}" for name, seconds in spent)}
    return Response(body, headers=headers, media_type="application/json")
