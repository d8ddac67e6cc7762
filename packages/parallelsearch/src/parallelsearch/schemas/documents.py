"""The documents of an index over HTTP: what was uploaded, what became of each, and the work that is under way."""

from __future__ import annotations

from typing import Literal

from parallelsearch.schemas.base import WireModel
from parallelsearch.schemas.retrieval import IndexModel

MAX_LISTED = 1_000


class DocumentModel(WireModel):
    """`reason` says why it is unreadable, or which document it repeats."""

    source: str
    state: Literal["indexed", "repeats", "unreadable"]
    reason: str = ""
    passages: int = 0
    title: str = ""
    date: str = ""
    uploaded: bool = False


class WorkModel(WireModel):
    """The last work on an index: `queued`, `running`, then `done` or `failed`; `detail` says why it failed or what it waits for."""

    state: Literal["idle", "queued", "running", "done", "failed"] = "idle"
    detail: str = ""


class IndexStatusModel(WireModel):
    """`index` is null until the first version is served; `total` counts all documents, of which `documents` are a stretch."""

    name: str
    index: IndexModel | None = None
    work: WorkModel = WorkModel()
    total: int = 0
    documents: list[DocumentModel] = []


class AcceptedModel(WireModel):
    """What was taken in, or is to go. `GET /v1/indexes/{name}` says what becomes of it."""

    name: str
    documents: list[str]
    work: WorkModel
