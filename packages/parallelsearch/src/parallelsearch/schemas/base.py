"""What all wire models share: unknown fields are refused, and text is text."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

_SURROGATE = re.compile("[\ud800-\udfff]")


class WireModel(BaseModel):
    """A request or answer body; frozen, and an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def clean(text: str) -> str:
    """The text, if it can be stored and sent on: no NUL, no lone surrogates (which JSON can spell and UTF-8 cannot)."""
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    if _SURROGATE.search(text):
        raise ValueError("must be valid Unicode: it contains lone surrogates")
    return text


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


CleanText = Annotated[str, AfterValidator(clean)]
NonBlankText = Annotated[str, AfterValidator(clean), AfterValidator(not_blank)]
