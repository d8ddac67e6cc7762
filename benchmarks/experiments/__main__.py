"""Runs the experiments against a policy server, with exact search in this process: python benchmarks/experiments --help

Every recipe is a run of `parallelsearch eval` in a folder of its own, with its report; a budget of seconds cuts what is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import corpora
import latency
from recipes import Recipe, recipes
from search import Encoder, ExactSearch
from summary import write_summary

from parallelsearch.clients.policy import PolicyDescription, PolicyHttp, describe_policy, policy_client
from parallelsearch.errors import ParallelSearchError
from parallelsearch.evaluation.asking import DirectAsker
from parallelsearch.evaluation.plan import Limits
from parallelsearch.evaluation.reading import read_questions
from parallelsearch.evaluation.reports.writing import write_run_report
from parallelsearch.evaluation.selection import Selected, Selection, select
from parallelsearch.evaluation.session import Plan, carry_out, read_manifest
from parallelsearch.evaluation.stacks import describe, rollout_settings
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.schemas.retrieval import IndexModel

MARGIN_S = 5
"""Kept back of the budget, to end in order."""


@dataclass(slots=True)
class Bench:
    """What all recipes share."""

    options: argparse.Namespace
    http: PolicyHttp
    description: PolicyDescription
    settings: RolloutSettings
    encoder: Encoder
    owner: ThreadPoolExecutor
    searches: dict[str, ExactSearch]
    started: float

    @property
    def left_s(self) -> float:
        return self.options.budget_s - (time.monotonic() - self.started)


def say(text: str) -> None:
    sys.stderr.write(f"[experiments] {text}\n")
    sys.stderr.flush()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of SET.jsonl and SET_corpus.jsonl.gz")
    parser.add_argument("--encoder", type=Path, help="sentence-transformers folder")
    parser.add_argument("--policy", help="address of the policy server")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=150, help="questions of each set at most")
    parser.add_argument("--concurrency", type=int, default=192)
    parser.add_argument("--turn-tokens", type=int, default=200)
    parser.add_argument("--passages", type=int, help="for rehearsals: so many passages of each corpus at most")
    parser.add_argument("--budget-s", type=float, default=1e9, help="seconds after which no recipe goes on")
    parser.add_argument("--reports", choices=("too", "only", "none"), default="too", help="only: of what --out holds")
    parser.add_argument("--only", nargs="*", help="groups of recipes: main graphs alone corpora top-k latency")
    parser.add_argument("--commit", default=os.environ.get("PARALLELSEARCH_COMMIT", ""))
    parser.add_argument("--machine", default="")
    parser.add_argument("--label", default="", help="what is measured, for the reports: the policy, the twin …")
    return parser.parse_args()


async def run(options: argparse.Namespace, started: float) -> None:
    owner = ThreadPoolExecutor(1, "search-owner")
    encoder = Encoder(options.encoder)
    http = PolicyHttp(options.policy, timeout_s=120.0)
    chosen = [one for one in recipes() if not options.only or one.group in options.only]
    wanted = list(dict.fromkeys([one.corpus for one in chosen] + ([corpora.WIKIPEDIA] if wants_latency(options) else [])))
    searches = {name: open_corpus(name, options, encoder, owner) for name in wanted}
    description = await reach(http)
    settings = replace(rollout_settings(description), turn_tokens=description.turn_tokens or options.turn_tokens)
    bench = Bench(options, http, description, settings, encoder, owner, searches, started)
    for search in searches.values():
        await search.start()
    for recipe in chosen:
        await cook(bench, recipe)
    if wants_latency(options) and bench.left_s > MARGIN_S:
        await cook_latency(bench)
    for search in searches.values():
        await search.close()
    await http.close()


def report(out: Path) -> None:
    """The reports of all recipes that were run, and the page over them."""
    for recipe in recipes():
        folder = RunFolder(out / recipe.name)
        if manifest := read_manifest(folder):
            write_run_report(folder, manifest)
            say(f"{recipe.name}: reported")
    write_summary(out, [recipe.name for recipe in recipes()])


def wants_latency(options: argparse.Namespace) -> bool:
    return not options.only or "latency" in options.only


async def reach(http: PolicyHttp, patience_s: float = 240.0) -> PolicyDescription:
    """Waits for the policy server, which may still load."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return await describe_policy(http, None)
        except ParallelSearchError as error:
            if time.monotonic() > until:
                raise SystemExit(f"The policy did not come up in {patience_s:.0f} s: {error}") from error
            await asyncio.sleep(1)


def open_corpus(name: str, options: argparse.Namespace, encoder: Encoder, owner: ThreadPoolExecutor) -> ExactSearch:
    passages = corpora.load(name, options.data)
    if options.passages:
        asked = [
            one for recipe in recipes() if recipe.corpus == name for part in selected(recipe, options) for one in part.questions
        ]
        passages = corpora.cut(passages, asked, options.passages)
    begun = time.monotonic()
    search = ExactSearch(passages, encoder, owner)
    say(f"{name}: {len(passages)} passages encoded in {time.monotonic() - begun:.1f} s")
    return search


def selected(recipe: Recipe, options: argparse.Namespace) -> tuple[Selected, ...]:
    limit = max(1, round(options.limit * recipe.share))
    selection = Selection(split="eval", answerable_only=True, subset=recipe.subset, limit=limit)
    return tuple(select(read_questions(path), selection) for path in recipe.files(options.data))


async def cook(bench: Bench, recipe: Recipe) -> None:
    """One recipe, as far as the budget goes."""
    options, search = bench.options, bench.searches[recipe.corpus]
    index = IndexModel(
        fingerprint=search.fingerprint,
        encoder=bench.encoder.name,
        dimension=0,
        metric="inner product",
        kind="exact",
        passages=len(search.passages),
    )
    stack = describe("policy, search in process", bench.description, index, corpus=recipe.corpus, cache="none")
    plan = Plan(
        selected=selected(recipe, options),
        modes=recipe.modes,
        models=(),
        limits=Limits(top_k=recipe.top_k, deadline_s=120.0),
        stack=stack.model_copy(update={"turn_tokens": bench.settings.turn_tokens}),
        concurrency=recipe.concurrency or options.concurrency,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=options.commit,
        machine=options.machine,
        note="; ".join(part for part in (options.label, recipe.note) if part),
    )
    left = bench.left_s - MARGIN_S
    if left <= 0:
        say(f"{recipe.name}: no time left")
        return
    begun = time.monotonic()
    asker = DirectAsker(policy_client(bench.http, bench.description), search, bench.settings, bench.description.identity)
    with suppress(TimeoutError):
        async with asyncio.timeout(left):
            await carry_out(RunFolder(options.out / recipe.name), plan, asker, lambda line: say(f"{recipe.name}: {line}"))
    say(f"{recipe.name}: {len(plan.jobs)} rollouts in {time.monotonic() - begun:.1f} s")


async def cook_latency(bench: Bench) -> None:
    search = bench.searches[corpora.WIKIPEDIA]
    queries = [f"{passage.title} {number}" for number, passage in enumerate(search.passages)]
    queries *= 1 + latency.REPEATS * 4 * sum(latency.WIDTHS) // max(1, len(queries))
    policy = policy_client(bench.http, bench.description)
    settings = replace(bench.settings, turn_tokens=48)
    with suppress(TimeoutError):
        async with asyncio.timeout(max(1.0, bench.left_s - MARGIN_S)):
            rows = await latency.measure(policy, search, settings, queries)
            (bench.options.out / "latency.json").write_text(json.dumps(rows, indent=2) + "\n")
            say(f"latency: {len(rows)} widths")


if __name__ == "__main__":
    begun, chosen_options = time.monotonic(), parse()
    if chosen_options.reports != "only":
        asyncio.run(run(chosen_options, begun))
    if chosen_options.reports != "none":
        report(chosen_options.out)
