"""`search`: several queries at once, without a policy."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    app.command()(search)


def search(
    queries: list[str] = typer.Argument(help="One or more queries, each in quotes."),
    top_k: int = typer.Option(3, "--top-k", help="Passages per query."),
    index: str | None = typer.Option(None, "--index", help="The index that is searched. Default: the platform's own."),
    source: str | None = typer.Option(None, "--source", help="Only documents of this name; * stands for anything."),
    after: str | None = typer.Option(None, "--after", help="Only documents dated then or later: a day, or a moment."),
    before: str | None = typer.Option(None, "--before", help="Only documents dated earlier."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Search afresh instead of using cached results."),
    as_json: bool = typer.Option(False, "--json", help="Print the results as JSON."),
    url: str | None = typer.Option(None, "--url", help="The gateway's address. Default: the platform that runs here."),
) -> None:
    """Searches all queries at the same time and shows what each finds."""
    from parallelsearch.cli import asking

    options = {"queries": queries, "top_k": top_k} | ({"cache": "bypass"} if no_cache else {})
    options |= asking.within(index, source, after, before)
    raise typer.Exit(asking.search(options, url, as_json=as_json))
