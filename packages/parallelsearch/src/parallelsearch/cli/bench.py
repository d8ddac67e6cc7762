"""`bench`: how many searches or answers a second the platform gives, and how long one takes, by how many ask at once."""

from __future__ import annotations

from enum import StrEnum

import typer

MOST_CLIENTS = 512


class Work(StrEnum):
    SEARCH = "search"
    ASK = "ask"


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    what: Work = typer.Argument(Work.SEARCH, help="Searches of one query each, or whole answers."),
    clients: list[int] = typer.Option(
        [1, 8, 64], "--clients", min=1, max=MOST_CLIENTS, help="How many ask at once, each again and again; once for each number."
    ),
    seconds: float = typer.Option(10.0, "--seconds", min=0.1, max=3600.0, help="For each number of clients."),
    use_cache: bool = typer.Option(False, "--use-cache", help="Let searches be answered from the cache."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    url: str | None = typer.Option(None, "--url", help="The gateway's address. Default: the platform that runs here."),
) -> None:
    """Measures the running platform with the demo's questions.

    Exit code 0 all answered, 1 some were not, 2 wrong input, 3 the platform cannot be reached.
    """
    from parallelsearch.cli import benching

    raise typer.Exit(benching.bench(what, clients, seconds, url, use_cache=use_cache, as_json=as_json))
