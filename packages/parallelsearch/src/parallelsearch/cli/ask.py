"""`ask`: one question, its trace and its answer."""

from __future__ import annotations

import typer

from parallelsearch.rollout.types import Mode


def register(app: typer.Typer) -> None:
    app.command()(ask)


def ask(
    question: str = typer.Argument(help="The question, in quotes."),
    mode: Mode = typer.Option(Mode.PARALLEL, help="How the policy is asked to search."),
    top_k: int = typer.Option(3, "--top-k", help="Passages per sub-query."),
    max_turns: int = typer.Option(4, "--max-turns", help="Searches at most; 0 answers without searching."),
    index: str | None = typer.Option(None, "--index", help="The index that is searched. Default: the platform's own."),
    source: str | None = typer.Option(None, "--source", help="Only documents of this name; * stands for anything."),
    after: str | None = typer.Option(None, "--after", help="Only documents dated then or later: a day, or a moment."),
    before: str | None = typer.Option(None, "--before", help="Only documents dated earlier."),
    deadline_s: float = typer.Option(120.0, "--deadline-s", help="Seconds after which the answer is given up."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Search afresh instead of using cached results."),
    as_json: bool = typer.Option(False, "--json", help="Print the trajectory as JSON."),
    url: str | None = typer.Option(None, "--url", help="The gateway's address. Default: the platform that runs here."),
) -> None:
    """Asks the platform and shows reasoning, sub-queries, answer and sources.

    Exit code 0 answered, 1 not answered, 2 wrong input, 3 the platform cannot be reached.
    """
    from parallelsearch.cli import asking

    options = {"mode": mode, "top_k": top_k, "max_turns": max_turns, "deadline_s": deadline_s}
    options |= {"cache": "bypass"} if no_cache else {}
    options |= asking.within(index, source, after, before)
    raise typer.Exit(asking.ask({"question": question} | options, url, as_json=as_json))
