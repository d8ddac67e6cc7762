"""`index build` and `index inspect`: handed to the retriever, which owns indexes."""

from __future__ import annotations

import subprocess
import sys

import typer

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Builds and inspects indexes.", no_args_is_help=True)
    group.command("build", context_settings=PASSED_ON)(build)
    group.command("inspect", context_settings=PASSED_ON)(inspect)
    app.add_typer(group, name="index")


def build(context: typer.Context) -> None:
    """Builds an index: index build CORPUS --out FOLDER [--encoder NAME]."""
    hand_over("build", context.args)


def inspect(context: typer.Context) -> None:
    """Says what an index holds: index inspect FOLDER [--json]."""
    hand_over("inspect", context.args)


def hand_over(command: str, arguments: list[str]) -> None:
    """Runs the retriever's own command with the same arguments; its exit code is ours."""
    try:
        done = subprocess.run([sys.executable, "-m", "retriever", "index", command, *arguments], check=False)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(done.returncode)
