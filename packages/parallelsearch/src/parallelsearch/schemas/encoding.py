"""`POST /v1/encode` of the retriever: texts in, vectors out as they lie in an index.

The answer is float32, little endian, row after row; a row is as long as the encoder's dimension.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from parallelsearch.schemas.base import WireModel

MAX_TEXTS = 64
MAX_TEXT_CHARACTERS = 100_000

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)]


class EncodeRequest(WireModel):
    encoder: str = Field(max_length=128, description="The key of the encoder: a hash over weights, dimension and rules.")
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    what: Literal["passages", "queries"] = "passages"
    texts: list[Text] = Field(max_length=MAX_TEXTS)
