"""`eval`, `eval compare` and `eval --canary`: what is asked and compared, as options. `evaluating` does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from parallelsearch.evaluation.questions import Subset
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.types import Mode
from parallelsearch.schemas.answers import CacheUse

RUN = "run"


class RunByDefault(TyperGroup):
    """`eval FILE …` means `eval run FILE …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=RunByDefault, help="Measures the platform on labelled questions, and compares runs.", no_args_is_help=True
    )
    group.command(RUN)(run)
    group.command("compare")(compare)
    group.command("report")(report)
    app.add_typer(group, name="eval")


def run(
    files: list[str] = typer.Argument(None, help="Question files, one JSON a line; or names of sets (demo, demo-graphs, nq …)."),
    mode: list[Mode] = typer.Option([Mode.PARALLEL, Mode.SEQUENTIAL], "--mode", help="Once for each mode."),
    model: list[str] = typer.Option([], "--model", help="Once for each model; the platform's own if left out."),
    out: Path = typer.Option(None, "--out", help="Folder of the run; the same again resumes it."),
    split: str = typer.Option("", "--split", help="Only rows of this split, where rows have one (eval, train)."),
    answerable: bool = typer.Option(False, "--answerable", help="Only rows that can be answered from the corpus."),
    subset: Subset | None = typer.Option(None, "--subset", help="Only the paper's parallel or sequential subset."),
    limit: int | None = typer.Option(None, "--limit", min=1, help="At most so many of each file, sampled by --seed."),
    seed: int = typer.Option(0, "--seed", min=0, max=2**31 - 1, help="Of the sample and of the policy."),
    top_k: int = typer.Option(3, "--top-k", min=1, max=20, help="Passages per sub-query."),
    max_turns: int = typer.Option(4, "--max-turns", min=0, max=16, help="Searches at most."),
    max_sub_queries: int = typer.Option(8, "--max-sub-queries", min=1, max=64),
    temperature: float = typer.Option(0.0, "--temperature", min=0, max=2),
    deadline_s: float = typer.Option(60.0, "--deadline", min=0.1, max=600, help="Seconds for one question."),
    concurrency: int = typer.Option(8, "--concurrency", min=1, max=1024, help="Questions at a time."),
    use_cache: bool = typer.Option(False, "--use-cache", help="Let the gateway answer searches from its cache."),
    corpus: str = typer.Option("", "--corpus", help="What the index holds, in words, for the report."),
    note: str = typer.Option("", "--note", help="Anything else that the report should say."),
    direct: bool = typer.Option(False, "--direct", help="Straight against policy and retriever instead of through the gateway."),
    layout: Layout | None = typer.Option(None, "--layout", help="With --direct: another layout than the policy's own."),
    url: str | None = typer.Option(None, "--url", help="The gateway. Default: the platform that runs here."),
    policy: str | None = typer.Option(None, "--policy", help="The policy's address, to describe it or with --direct."),
    retriever: str | None = typer.Option(None, "--retriever", help="The retriever's address, likewise."),
    canary: Path | None = typer.Option(None, "--canary", help="Ask this file's questions again and again and export metrics."),
    interval_s: float = typer.Option(300.0, "--interval", min=1, help="Seconds from one canary round to the next."),
    port: int = typer.Option(9105, "--port", min=1, max=65535, help="Of the canary's /metrics."),
    host: str = typer.Option("127.0.0.1", "--host", help="Where the canary's /metrics listen."),
    rounds: int | None = typer.Option(None, "--rounds", min=1, help="Canary rounds; without end if left out."),
) -> None:
    """Asks every question in every mode of every model, and writes report.md, report.json and report.html into --out."""
    from parallelsearch.cli import evaluating
    from parallelsearch.evaluation.plan import Limits
    from parallelsearch.evaluation.selection import Selection

    limits = Limits(top_k, max_turns, max_sub_queries, temperature, seed, deadline_s)
    selection = Selection(split, answerable, subset, limit, seed)
    used: CacheUse = "use" if use_cache else "bypass"
    target = evaluating.Target(url, policy, retriever, direct, used, corpus, layout)
    if canary is not None:
        watch = evaluating.Watch(canary, interval_s, host, port, rounds)
        raise typer.Exit(evaluating.watch(watch, target, selection, limits, mode[0], tuple(model)))
    wanted = evaluating.Wanted(tuple(files or ()), tuple(mode), tuple(model), out, concurrency, note)
    raise typer.Exit(evaluating.evaluate(wanted, target, selection, limits))


def compare(
    a: str = typer.Argument(help="A run's folder; with several modes or models DIR:MODE or DIR:MODE:MODEL."),
    b: str = typer.Argument(help="The other side, on the same questions."),
    out: Path = typer.Option(None, "--out", help="Folder for comparison.md, .json and .html; else Markdown is printed."),
) -> None:
    """Compares two runs, or two modes of one, question by question: eval compare DIR:parallel DIR:sequential."""
    from parallelsearch.cli import evaluating

    raise typer.Exit(evaluating.compare(a, b, out))


def report(folders: list[Path] = typer.Argument(help="Folders of runs, finished or not.")) -> None:
    """Makes the reports of runs again, from what their folders hold."""
    from parallelsearch.cli import evaluating

    raise typer.Exit(evaluating.report(folders))
