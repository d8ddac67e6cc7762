"""`python -m trainer prepare-data`: makes prompt files and cold-start files, each with its manifest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from parallelsearch.errors import InvalidInput
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.types import Kind, Mode
from trainer.data.cold_start import prepare_cold_start
from trainer.data.manifest import Manifest
from trainer.data.prompts import PromptSettings, prepare_prompts

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Target = Annotated[Path, typer.Option("--out", help="The .jsonl file to write.")]
Exclude = Annotated[list[str] | None, typer.Option(help="Question files whose eval questions must not be learnt.")]
Asked = Annotated[Literal["parallel", "sequential"], typer.Option("--mode", help="How the policy is asked.")]
Seed = Annotated[int, typer.Option(help="Of the shuffle.")]


@app.command()
def prompts(
    questions: Annotated[list[str], typer.Argument(help="Question files: .jsonl, .jsonl.gz, .parquet, hf:OWNER/NAME/FILE.")],
    out: Target,
    exclude: Exclude = None,
    split: Annotated[Literal["train", "eval"], typer.Option(help="Which rows.")] = "train",
    mode: Asked = "parallel",
    layout: Annotated[Layout, typer.Option(help="The policy's observation layout.")] = Layout.LABELLED,
    kind: Annotated[list[Kind] | None, typer.Option(help="Only questions of these kinds.")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="Only questions of these types.")] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Also questions that the corpus cannot answer.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows.")] = None,
    seed: Seed = 42,
) -> None:
    """Make a prompt file for reinforcement learning or its evaluation."""
    settings = PromptSettings(
        mode=Mode(mode),
        layout=layout,
        split=split,
        kinds=frozenset(kind or Kind),
        types=frozenset(type_ or ()),
        only_answerable=not all_rows,
        limit=limit,
        seed=seed,
    )
    with _sentences():
        _report(prepare_prompts(questions, exclude or [], out, settings))


@app.command()
def cold_start(
    trajectories: Annotated[list[str], typer.Argument(help="Trajectory files, .jsonl or .jsonl.gz.")],
    out: Target,
    corpus: Annotated[list[str] | None, typer.Option(help="NAME=FILE of a corpus that compact trajectories refer to.")] = None,
    exclude: Exclude = None,
    mode: Asked = "parallel",
    seed: Seed = 42,
) -> None:
    """Make a cold-start file for supervised learning."""
    with _sentences():
        corpora = dict(_named(corpus or []))
        _report(prepare_cold_start(trajectories, corpora, out, excluded=exclude or [], mode=Mode(mode), seed=seed))


def _named(corpora: list[str]) -> list[tuple[str, str]]:
    pairs = [tuple(corpus.split("=", 1)) for corpus in corpora]
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidInput("--corpus: write NAME=FILE.")
    return [(name, path) for name, path in pairs]


def _report(manifest: Manifest) -> None:
    sys.stdout.write(manifest.model_dump_json(indent=2) + "\n")


@contextmanager
def _sentences() -> Iterator[None]:
    """A fault of the input ends the command with its sentence."""
    try:
        yield
    except InvalidInput as error:
        typer.echo(f"prepare-data: {error.detail}", err=True)
        raise typer.Exit(1) from None
