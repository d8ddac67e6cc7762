"""What all wire models share: unknown fields are refused, and text is text."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class WireModel(BaseModel):
    """A request or answer body; frozen, and an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    return text


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


CleanText = Annotated[str, AfterValidator(without_nul)]
NonBlankText = Annotated[str, AfterValidator(without_nul), AfterValidator(not_blank)]
