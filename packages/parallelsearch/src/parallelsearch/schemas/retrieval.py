"""The retriever's own contract: `POST /v1/retrieve` and `GET /v1/index`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, FiniteFloat, StrictInt

from parallelsearch.rollout.types import EVERYWHERE, Filter, Scope
from parallelsearch.schemas.base import CleanText, WireModel

MAX_QUERIES = 10_000
MAX_QUERY_CHARACTERS = 8_192
MAX_TOP_K = 100

Query = Annotated[CleanText, Field(max_length=MAX_QUERY_CHARACTERS)]


Method = Literal["dense", "bm25", "hybrid", "rerank", "web"]
METHOD_HELP = (
    "Vectors (dense), words (bm25), both fused by rank (hybrid), the best of these scored again by a cross-encoder (rerank), "
    "or a hosted web search (web); null: the server's default. `GET /v1/index` says which there are."
)
LEXICAL_METHODS: tuple[Method, ...] = ("bm25", "hybrid")


def _moment(text: str) -> str:
    """A day, or a moment, as a moment in UTC; one without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):  # the latter where it is in no year of UTC from 1 to 9999
        raise ValueError("must be a day or a moment in ISO 8601, such as 2024-05-31") from None


Moment = Annotated[CleanText, Field(max_length=64), AfterValidator(_moment)]
IndexName = Annotated[CleanText, Field(max_length=256)]
ShortText = Annotated[CleanText, Field(max_length=1_024)]


class PassageModel(WireModel):
    """One passage as found for one query; `score` is the inner product of unit vectors unless the index says otherwise."""

    id: str
    title: str
    text: str
    score: FiniteFloat
    url: str = ""
    metadata: dict[str, str | int] = Field(
        default_factory=dict, description="Of a document: source, date, section, page, and its own."
    )


class FilterModel(WireModel):
    """Which documents count; all that is given must hold."""

    source: ShortText | None = Field(default=None, description="The document's name; * stands for anything.")
    after: Moment | None = Field(default=None, description="Dated then or later.")
    before: Moment | None = Field(default=None, description="Dated earlier.")
    metadata: dict[ShortText, ShortText] = Field(default={}, max_length=16, description="What the document's metadata says.")


def scope_of(index: str | None, model: FilterModel | None, method: Method | None = None) -> Scope:
    if index is None and model is None and method is None:
        return EVERYWHERE
    given = model or FilterModel()
    metadata = tuple(sorted(given.metadata.items()))
    return Scope(index or "", Filter(given.source or "", given.after or "", given.before or "", metadata), method or "")


def filter_to_wire(given: Filter) -> FilterModel | None:
    if given == Filter():
        return None
    return FilterModel(
        source=given.source or None, after=given.after or None, before=given.before or None, metadata=dict(given.metadata)
    )


class RetrieveRequest(WireModel):
    queries: list[Query] = Field(max_length=MAX_QUERIES, description="One row comes back for each, in this order.")
    top_k: StrictInt = Field(default=3, ge=1, le=MAX_TOP_K)
    method: Method | None = Field(default=None, description=METHOD_HELP)
    index: IndexName | None = Field(default=None, description="The index that is searched; null: the default one.")
    filter: FilterModel | None = Field(default=None, description="Which documents count; null: all.")


class IndexModel(WireModel):
    """What the retriever serves; `fingerprint` changes with encoder, corpus or vectors. Both are part of every cache key."""

    fingerprint: str
    ranking: str = Field(
        default="", description="Changes with what else decides rows: default method, cross-encoder, how exactly is searched."
    )
    encoder: str
    dimension: int
    metric: str
    kind: str
    passages: int
    shards: int = 1
    built_at: str = ""
    methods: tuple[Method, ...] = ("dense",)
    default_method: Method | None = Field(default=None, description="How a query is searched that does not say.")
    name: str = "default"
    documents: int | None = Field(default=None, description="How many there are; null for an index of passages.")


class IndexesModel(WireModel):
    """Every index that is served, the default one first; `faults` says why others are not."""

    indexes: list[IndexModel]
    faults: dict[str, str] = {}


class ReloadResponse(WireModel):
    """`reloaded` is false where the index that is served was the published one already."""

    reloaded: bool
    index: IndexModel


class RetrieveResponse(WireModel):
    results: list[list[PassageModel]]
    index: IndexModel
