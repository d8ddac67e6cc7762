"""`parallelsearch reward`: scores trajectory files, one JSON a line in, one breakdown a line out, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer
from pydantic import ValidationError

from parallelsearch.errors import InvalidInput
from parallelsearch.reward.scoring import Preset, Reward, score
from parallelsearch.reward.terms import MAX_ALPHA, MAX_FORMAT, MAX_WEIGHT, RewardWeights
from parallelsearch.schemas.answers import ScoredTrajectoryModel
from parallelsearch.schemas.trajectories import trajectory_from_wire
from parallelsearch.text_lines import without_mark

STDIN = "-"


def register(app: typer.Typer) -> None:
    app.command()(reward)


def reward(
    paths: Annotated[list[str] | None, typer.Argument(help="Files of trajectories, one JSON a line; `-` or none: stdin.")] = None,
    preset: Annotated[Preset, typer.Option(help="`paper` as published, `strict` with its holes closed.")] = Preset.STRICT,
    decomposition: Annotated[float, typer.Option(min=0, max=MAX_WEIGHT, help="Weight λd.")] = RewardWeights().decomposition,
    alpha: Annotated[
        float, typer.Option(min=0, max=MAX_ALPHA, help="Multiplier α of a right decomposition.")
    ] = RewardWeights().alpha,
    search_count: Annotated[float, typer.Option(min=0, max=MAX_WEIGHT, help="Weight λs.")] = RewardWeights().search_count,
    format_weight: Annotated[
        float, typer.Option("--format", min=0, max=MAX_FORMAT, help="Weight of the format.")
    ] = RewardWeights().format,
) -> None:
    """Score trajectories that carry `kind` and `golden_answers`; writes {"id", "reward", "terms": {…}} for each, in order."""
    weights = RewardWeights(decomposition, alpha, search_count, format_weight)
    try:
        for path in paths or [STDIN]:
            with nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as file:
                for line in score_lines(file, path, preset, weights):
                    sys.stdout.write(line + "\n")
    except BrokenPipeError:
        raise  # whoever reads has had enough
    except (InvalidInput, OSError) as error:
        sys.stdout.flush()
        typer.echo(f"reward: {error}", err=True)
        raise typer.Exit(1) from None


def score_lines(file: BinaryIO | Iterable[bytes], name: str, preset: Preset, weights: RewardWeights) -> Iterator[str]:
    """One breakdown for each line that is not blank, as it is read.

    Raises:
        InvalidInput: a line is no scored trajectory; names file, line and field.
    """
    for number, line in enumerate(without_mark(file), start=1):
        if line.strip():
            model = parse_line(line, f"{'stdin' if name == STDIN else name}:{number}")
            result = score(trajectory_from_wire(model), model.kind, model.golden_answers, preset=preset, weights=weights)
            yield render(model.id, result)


def parse_line(line: bytes, place: str) -> ScoredTrajectoryModel:
    try:
        return ScoredTrajectoryModel.model_validate_json(line)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise InvalidInput(f"{place}: {f'{field}: ' if field else ''}{fault['msg'].removeprefix('Value error, ')}") from None


def render(identifier: str, result: Reward) -> str:
    return orjson.dumps({"id": identifier, "reward": result.value, "terms": asdict(result.terms)}).decode()
