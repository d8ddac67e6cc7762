"""`up`, `down`, `status`: the platform on this machine."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(
    foreground: bool = typer.Option(False, "--foreground", help="Stay in the foreground and end when a service dies."),
) -> None:
    """Starts the platform and waits until it is ready; it is left running.

    Ports move by GATEWAY_PORT, RETRIEVER_PORT, POLICY_PORT, TRAINER_PORT and REDIS_PORT. With POLICY_BASE_URL or REDIS_URL
    set, that policy or Redis is used instead of one of its own.
    """
    from parallelsearch.cli import starting

    raise typer.Exit(starting.up(foreground=foreground))


def down() -> None:
    """Stops the platform and leaves no process behind."""
    from parallelsearch.cli import starting

    raise typer.Exit(starting.down())


def status(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Says how each service is. Exit code 0 when all is ready, 1 when something is wrong, 3 when nothing runs."""
    from parallelsearch.cli import status_table

    raise typer.Exit(status_table.show(as_json=as_json))
