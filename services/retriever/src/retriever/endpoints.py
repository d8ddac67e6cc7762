"""The retriever's routes: its own contract, the one that RL trainers speak, and what it serves."""

from __future__ import annotations

from typing import Annotated, TypedDict, cast

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from parallelsearch.rollout.types import Passage
from parallelsearch.schemas.retrieval import IndexModel, RetrieveRequest, RetrieveResponse
from parallelsearch.schemas.wire_retrieve import WireRetrieveRequest, WireRetrieveResponse
from retriever.service import Retriever
from servicekit.bodies import body_schema, read_body

router = APIRouter(tags=["retrieval"])


class State(TypedDict):
    """What the lifespan yields: the typed state of every request."""

    retriever: Retriever
    default_top_k: int


def state_of(request: Request) -> State:
    return cast(State, request.state._state)


CurrentState = Annotated[State, Depends(state_of)]


@router.post("/v1/retrieve", response_model=RetrieveResponse, openapi_extra=body_schema(RetrieveRequest))
async def retrieve(request: Request, state: CurrentState) -> Response:
    """The passages nearest to each query, best first."""
    body = await read_body(request, RetrieveRequest)
    found = await state["retriever"].retrieve(body.queries, body.top_k)
    return _json({"results": [[_passage(each) for each in row] for row in found.rows], "index": found.index.model_dump()})


@router.post("/retrieve", response_model=WireRetrieveResponse, openapi_extra=body_schema(WireRetrieveRequest))
async def retrieve_for_trainers(request: Request, state: CurrentState) -> Response:
    """The same search in the shapes that existing RL trainers read."""
    body = await read_body(request, WireRetrieveRequest)
    found = await state["retriever"].retrieve(body.texts, body.topk or state["default_top_k"])
    shape = _scored_document if body.return_scores else _document
    rows = [[shape(each) for each in row] for row in found.rows]
    return _json({"result": rows, "results": rows})


@router.get("/v1/index")
async def index(state: CurrentState) -> IndexModel:
    """What is served: encoder, kind, passages, fingerprint."""
    return state["retriever"].described


def _passage(passage: Passage) -> dict[str, object]:
    return {"id": passage.id, "title": passage.title, "text": passage.text, "score": passage.score, "url": passage.url}


def _document(passage: Passage) -> dict[str, object]:
    contents = f'"{passage.title}"\n{passage.text}'
    return {"id": passage.id, "title": passage.title, "text": passage.text, "contents": contents, "url": passage.url}


def _scored_document(passage: Passage) -> dict[str, object]:
    return {"document": _document(passage), "score": passage.score}


def _json(body: dict[str, object]) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
