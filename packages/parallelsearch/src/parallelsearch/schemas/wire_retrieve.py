"""`POST /retrieve` as existing RL trainers speak it: names, defaults and shapes are theirs, not ours.

`queries` or `query`; the number of passages under any of four names, null or 0 for the server's default; scores only where
asked for. Unknown fields are ignored, because clients send some.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, ConfigDict, Field, StrictBool, StrictInt, model_validator

from parallelsearch.schemas.base import WireModel
from parallelsearch.schemas.retrieval import MAX_QUERIES, MAX_TOP_K, Query


class WireRetrieveRequest(WireModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    queries: list[Query] | None = Field(default=None, max_length=MAX_QUERIES)
    query: Query | None = None
    topk: Annotated[StrictInt, Field(ge=0, le=MAX_TOP_K)] | None = Field(
        default=None, validation_alias=AliasChoices("topk", "top_k", "k", "top_n")
    )
    return_scores: StrictBool | None = Field(default=None, validation_alias=AliasChoices("return_scores", "return_score"))

    @model_validator(mode="after")
    def _one_of_both(self) -> WireRetrieveRequest:
        if (self.queries is None) == (self.query is None):
            raise ValueError("give either `queries`, a list of strings, or `query`, one string")
        return self

    @property
    def texts(self) -> list[str]:
        """The queries as sent, untrimmed; one row comes back for each."""
        return [self.query] if self.query is not None else list(self.queries or ())


class WireDocument(WireModel):
    """`contents` is the title in double quotes, a newline and the text; `url` is empty if unknown."""

    id: str
    title: str
    text: str
    contents: str
    url: str = ""


class WireScoredDocument(WireModel):
    document: WireDocument
    score: float


class WireRetrieveResponse(WireModel):
    """The same rows under both names; `results` is what some clients read. Documents stand flat unless scores are asked for."""

    result: list[list[WireScoredDocument]] | list[list[WireDocument]]
    results: list[list[WireScoredDocument]] | list[list[WireDocument]]
