"""`train`: submits training runs, watches and cancels them, shows and promotes what they learnt."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import typer

from parallelsearch.errors import InvalidInput
from parallelsearch.schemas.training import RunState

if TYPE_CHECKING:
    from parallelsearch.clients.trainer import TrainerClient

TRAINER_URL, ADMIN_TOKEN = "TRAINER_URL", "ADMIN_TOKEN"
URL = typer.Option(None, "--url", help="The trainer's address. Default: TRAINER_URL, else that of the platform here.")
RUN = typer.Argument(help="The run's id, as `train list` shows it.")


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Training runs: what they are to do, how they get on, what they learnt.")
    for command in (submit, show, logs, metrics, checkpoints, cancel, promote):
        group.command()(command)
    group.command("list")(list_runs)
    app.add_typer(group, name="train")


def submit(
    spec: Path = typer.Argument(help="The run's specification, a JSON file; see docs/training.md."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the exact command and start nothing."),
    key: str | None = typer.Option(None, "--key", help="With the same key, the run that was submitted the first time."),
    url: str | None = URL,
) -> None:
    """Queues a run and prints its id."""
    wanted = _read(spec)
    if dry_run:
        typer.echo(_client(url).dry_run(wanted).shell)
        return
    typer.echo(_client(url).submit(wanted, key).id)


def list_runs(
    state: list[RunState] = typer.Option([], "--state", help="Only runs in this state; may be given several times."),
    limit: int = typer.Option(100, "--limit", min=1, help="So many at most."),
    url: str | None = URL,
) -> None:
    """One line for each run, the newest first."""
    found = _client(url).list(state, limit=limit)
    for run in found.runs:
        flags = f"  ⚑ {len(run.flags)}" if run.flags else ""
        typer.echo(f"{run.id}  {run.state:<9}  {run.spec.kind:<13}  {run.created_at[:19]}  {run.spec.name}{flags}")
    if not found.runs:
        typer.echo("There are no runs in that state." if state else "There are no runs yet.", err=True)
    if found.next:
        typer.echo(f"There are more than these {limit}; --limit shows more.", err=True)


def show(run_id: str = RUN, url: str | None = URL) -> None:
    """Prints all that is known of a run, as JSON."""
    typer.echo(_client(url).show(run_id).model_dump_json(indent=2))


def logs(
    run_id: str = RUN,
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on until the run ends."),
    url: str | None = URL,
) -> None:
    """Prints a run's output."""
    for part in _client(url).logs(run_id, follow=follow):
        sys.stdout.write(part)
        sys.stdout.flush()


def metrics(
    run_id: str = RUN,
    since: int = typer.Option(0, "--since", min=0, help="Only steps after this one."),
    url: str | None = URL,
) -> None:
    """One JSON a line: the metrics of each step."""
    steps = _client(url).metrics(run_id, since).steps
    for step in steps:
        typer.echo(step.model_dump_json())
    if not steps:
        typer.echo("The run has written no metrics of such steps yet.", err=True)


def checkpoints(run_id: str = RUN, url: str | None = URL) -> None:
    """One line for each checkpoint: its step, when it was written, its size and where it lies."""
    kept = _client(url).checkpoints(run_id).checkpoints
    for found in kept:
        typer.echo(f"{found.step:>6}  {found.created_at[:19]}  {found.bytes / 1e6:>10,.1f} MB  {found.path}")
    if not kept:
        typer.echo("The run has no checkpoints yet.", err=True)


def cancel(run_id: str = RUN, url: str | None = URL) -> None:
    """Ends a run and all of its processes."""
    typer.echo(_client(url).cancel(run_id).state)


def promote(run_id: str = RUN, step: int = typer.Argument(help="The checkpoint's step."), url: str | None = URL) -> None:
    """Has the policy service load a checkpoint."""
    promoted = _client(url).promote(run_id, step)
    typer.echo(f"step {promoted.step} is version {promoted.version} of the policy")


def _client(url: str | None) -> TrainerClient:
    from parallelsearch.cli import here
    from parallelsearch.clients.trainer import TrainerClient

    environment, settings = here.environment(), here.settings()
    address = url or environment.get(TRAINER_URL) or here.service_url("trainer")
    # Where no platform was started there is no token of its own, and reading needs none.
    own = settings.state.read_admin_token() if settings.state.admin_token.is_file() else ""
    return TrainerClient(address, token=environment.get(ADMIN_TOKEN) or own)


def _read(path: Path) -> dict[str, object]:
    try:
        found = orjson.loads(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except (OSError, orjson.JSONDecodeError) as error:
        raise InvalidInput(f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{path}: a specification is a JSON object.")
    return found
