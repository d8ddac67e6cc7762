"""The routes of documents: upload, status, removal. Files go to a folder of the index, and a job makes the index follow it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated

from fastapi import APIRouter, HTTPException, Query, Request, UploadFile
from fastapi.responses import FileResponse

from parallelsearch.errors import ConfigurationError, InvalidInput, NotFound
from parallelsearch.schemas.documents import MAX_LISTED, AcceptedModel, DocumentModel, IndexStatusModel
from retriever.command_arguments import NAME
from retriever.documents.document import Unreadable
from retriever.documents.files import uploads_of
from retriever.documents.formats import SUFFIXES, Format, check_content, format_of
from retriever.documents.jobs import Job
from retriever.documents.patterns import literally
from retriever.documents.records import DocumentRecord, read_records
from retriever.documents.staged import staged
from retriever.endpoints import State, state_of
from retriever.index.manifest import MANIFEST_FILE, read_manifest
from retriever.service import Retriever
from servicekit.auth import require_admin
from servicekit.errors import documented

router = APIRouter(prefix="/v1/indexes/{name}", tags=["documents"])

MEDIA_TYPES = {
    Format.PDF: "application/pdf",
    Format.DOCX: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
"""Of what is given out; everything else, HTML among it, is plain text."""
UNSHOWN = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
}
MAX_FILES = 100
MAX_NAME_BYTES = 200
PROBLEMS = documented(
    {
        401: "The admin token is missing or wrong.",
        403: "No admin token is configured.",
        404: "There is no such index, or no such document in it.",
        409: "A document of this name came from elsewhere, or the index is one of passages.",
        413: "The body is too large.",
        415: "A file is no document, or its content is not what its name says.",
        422: "The request is wrong.",
        503: "Too many changes wait; `Retry-After` says when to try again.",
        507: "The folder of the indexes cannot be written to, or it or that of temporary files is full.",
    }
)


@router.post("/documents", status_code=202, responses=PROBLEMS)
async def upload(request: Request, name: str, files: list[UploadFile]) -> AcceptedModel:
    """Takes documents in, and puts them in the place of those called the same. Needs the admin token."""
    state = state_of(request)
    folder = _writable(request, state, name)
    if len(files) > MAX_FILES:
        raise InvalidInput(f"files: at most {MAX_FILES} at once; send the others after these")
    checked = [(_document_name(file.filename or ""), file) for file in files]
    records = await asyncio.to_thread(_records, folder)
    uploads = uploads_of(folder)
    for document, _ in checked:
        if any(record.source == document and record.root != str(uploads.resolve()) and record.has_root for record in records):
            raise HTTPException(409, f"{document} is in the index already, from another folder. Upload it under another name.")
    try:
        await asyncio.to_thread(_keep, uploads, [(document, file.file) for document, file in checked])
    except OSError as error:
        said = f"The documents cannot be kept: {uploads}: {error.strerror}."
        raise HTTPException(507, f"{said} Let the retriever write there, or set RETRIEVER_INDEXES.") from None
    work = state["jobs"].add(following_uploads(state["retriever"], name))
    return AcceptedModel(name=name, documents=[document for document, _ in checked], work=work)


@router.get("", responses=PROBLEMS)
async def status(
    request: Request,
    name: str,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> IndexStatusModel:
    """What the index holds, what became of each document, and the work that is under way."""
    state = state_of(request)
    retriever, jobs = state["retriever"], state["jobs"]
    folder = retriever.places.folder(name)
    records = await asyncio.to_thread(_records, folder)
    uploads = str(uploads_of(folder).resolve())
    work = jobs.state_of(name)
    index = retriever.describe(name) if retriever.serves(name) else None
    if index is None and work.state == "idle" and not (folder / MANIFEST_FILE).exists():
        raise NotFound(f"There is no index {name}.")
    listed = [_listed(record, uploads) for record in records[offset : offset + limit]]
    return IndexStatusModel(name=name, index=index, work=work, total=len(records), documents=listed)


@router.get("/documents/{document:path}/content", response_class=FileResponse, responses=PROBLEMS)
async def content(request: Request, name: str, document: str) -> FileResponse:
    """The original of a document that was uploaded, to be kept and not to be shown: no browser runs what is in it."""
    places = state_of(request)["retriever"].places
    folder = places.folder(name)
    records = await asyncio.to_thread(_records, folder)
    uploads = places.uploads(name)
    if uploads is None:
        raise NotFound("Originals are not given out here: RETRIEVER_SERVE_UPLOADS is off.")
    root = str(uploads.resolve())
    path = uploads / document
    if not any(record.source == document and record.root == root for record in records) or path.is_symlink() or not path.is_file():
        raise NotFound(f"The index {name} has no document {document} that was uploaded to it.")
    media_type = MEDIA_TYPES.get(format_of(document) or Format.TEXT, "text/plain")
    return FileResponse(path, media_type=media_type, filename=document, headers=UNSHOWN)


@router.delete("/documents/{document:path}", status_code=202, responses=PROBLEMS)
async def remove(request: Request, name: str, document: str) -> AcceptedModel:
    """Takes a document out of the index. Needs the admin token."""
    state = state_of(request)
    folder = _writable(request, state, name)
    records = await asyncio.to_thread(_records, folder)
    record = next((record for record in records if record.source == document), None)
    try:
        uploaded = _is_file_name(document) and await asyncio.to_thread(_unlinked, uploads_of(folder) / document)
    except OSError as error:
        said = f"{document} cannot be removed: {uploads_of(folder)}: {error.strerror}."
        raise HTTPException(507, f"{said} Let the retriever write there.") from None
    if not uploaded and record is None:
        raise NotFound(f"The index {name} has no document {document}.")
    if record is None or record.root == str(uploads_of(folder).resolve()):
        job = following_uploads(state["retriever"], name)
    else:
        job = Job(name, ("delete", *_index_and_encoder(state["retriever"], name), "--", literally(document)))
    return AcceptedModel(name=name, documents=[document], work=state["jobs"].add(job))


def _writable(request: Request, state: State, name: str) -> Path:
    require_admin(request, state["admin_token"])
    places = state["retriever"].places
    folder = places.folder(name)
    if not NAME.fullmatch(name):
        raise InvalidInput(f"name: {name!r} is no name for an index: letters, digits, dots, dashes, at most 64")
    try:
        if (folder / MANIFEST_FILE).exists() and read_manifest(folder).documents is None:
            raise HTTPException(409, f"The index {name} was built of passages, which have no documents. Use another name.")
    except ConfigurationError as error:
        raise HTTPException(409, error.detail) from None
    return folder


def _is_file_name(name: str) -> bool:
    return "/" not in name and not name.startswith(".") and name.isprintable() and len(name.encode()) <= MAX_NAME_BYTES


def _document_name(name: str) -> str:
    if not name or not _is_file_name(name):
        raise InvalidInput("files: a document's name is one word or more, without slashes, not hidden, at most 200 bytes")
    if format_of(name) is None:
        raise HTTPException(415, f"{name} is not read. Documents end in {' '.join(SUFFIXES)}.")
    return name


def _keep(uploads: Path, files: Sequence[tuple[str, IO[bytes]]]) -> None:
    """Writes each file beside its place, looks at its content, and moves them there: all, or none where one is refused."""
    uploads.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Path] = {}
    with ExitStack() as leftovers:
        for document, content in files:
            kept[document], target = leftovers.enter_context(staged(uploads))
            shutil.copyfileobj(content, target)
            target.flush()
            try:
                check_content(kept[document], format_of(document) or Format.TEXT)
            except Unreadable as error:
                raise HTTPException(415, f"{document}: it {error}.") from None
        for document, path in kept.items():
            path.replace(uploads / document)


def _records(folder: Path) -> list[DocumentRecord]:
    try:
        return read_records(folder / read_manifest(folder).version)
    except ConfigurationError:
        return []


def _listed(record: DocumentRecord, uploads: str) -> DocumentModel:
    return DocumentModel(
        source=record.source,
        state=record.state,
        reason=record.reason,
        passages=record.rows,
        title=record.title,
        date=record.date,
        uploaded=record.root == uploads,
    )


def _unlinked(path: Path) -> bool:
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    return True


def following_uploads(retriever: Retriever, name: str) -> Job:
    """What makes an index be what was uploaded to it."""
    uploads = uploads_of(retriever.places.folder(name)).resolve()
    return Job(name, ("sync", str(uploads), *_index_and_encoder(retriever, name)))


def _index_and_encoder(retriever: Retriever, name: str) -> tuple[str, ...]:
    """The encoder is named as this service found it; a new index gets that of the default one, which is loaded already."""
    folder = retriever.places.folder(name)
    is_known = retriever.serves(name) or not (folder / MANIFEST_FILE).exists()
    return "--index", str(folder.resolve()), *(("--encoder", retriever.encoder_of(name)) if is_known else ())
