"""The retriever's own contract: `POST /v1/retrieve` and `GET /v1/index`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from parallelsearch.schemas.base import CleanText, WireModel

MAX_QUERIES = 10_000
MAX_QUERY_CHARACTERS = 8_192
MAX_TOP_K = 100

Query = Annotated[CleanText, Field(max_length=MAX_QUERY_CHARACTERS)]


Method = Literal["dense", "bm25", "hybrid"]
METHODS: tuple[Method, ...] = ("dense", "bm25", "hybrid")


class PassageModel(WireModel):
    """One passage as found for one query; `score` is the inner product of unit vectors unless the index says otherwise."""

    id: str
    title: str
    text: str
    score: float
    url: str = ""


class RetrieveRequest(WireModel):
    queries: list[Query] = Field(max_length=MAX_QUERIES, description="One row comes back for each, in this order.")
    top_k: StrictInt = Field(default=3, ge=1, le=MAX_TOP_K)
    method: Method | None = Field(default=None, description="Vectors, words, or both fused by rank; null: the server's default.")


class IndexModel(WireModel):
    """What the retriever serves; `fingerprint` changes with encoder, corpus or vectors and is part of every cache key."""

    fingerprint: str
    encoder: str
    dimension: int
    metric: str
    kind: str
    passages: int
    shards: int = 1
    built_at: str = ""
    methods: tuple[Method, ...] = ("dense",)


class ReloadResponse(WireModel):
    """`reloaded` is false where the index that is served was the published one already."""

    reloaded: bool
    index: IndexModel


class RetrieveResponse(WireModel):
    results: list[list[PassageModel]]
    index: IndexModel
