"""What `eval` does: reads the questions, connects, runs or watches, and writes the reports."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from parallelsearch.cli import here
from parallelsearch.errors import ConfigurationError, InvalidInput
from parallelsearch.evaluation.comparing import read_side
from parallelsearch.evaluation.named_sets import load_named_set
from parallelsearch.evaluation.plan import Limits
from parallelsearch.evaluation.reading import QuestionSet, read_questions
from parallelsearch.evaluation.selection import Selected, Selection, select
from parallelsearch.evaluation.session import Plan, carry_out, read_manifest
from parallelsearch.evaluation.stacks import Addresses, Connected, connect
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.types import Mode
from parallelsearch.schemas.answers import CacheUse

COMMIT = "PARALLELSEARCH_COMMIT"
"""Says which code is running where there is no git to ask."""
POLICY_KEY = "POLICY_API_KEY"
LIBRARIES = ("matplotlib", "numpy", "prometheus_client", "scipy")
FAULTS_SHOWN = 20
RETRIES_TOLD_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `eval` was asked to run."""

    files: tuple[str, ...]
    modes: tuple[Mode, ...]
    models: tuple[str, ...]
    out: Path | None
    concurrency: int
    note: str


@dataclass(frozen=True, slots=True)
class Target:
    """What it is asked of; addresses left out are those of the platform that runs here. `layout` is for asking straight."""

    url: str | None
    policy: str | None
    retriever: str | None
    direct: bool
    cache: CacheUse
    corpus: str
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """A canary: its questions, its rhythm, and where its metrics are read."""

    file: Path
    interval_s: float
    host: str
    port: int
    rounds: int | None


def say(text: str) -> None:
    sys.stderr.write(f"[eval] {text}\n")
    sys.stderr.flush()


def tell_of_retries() -> None:
    """Says why the run waits, the same a line in ten seconds at most: of a stack that restarts every question in flight hears."""
    from stamina.instrumentation import RetryDetails, set_on_retry_hooks

    told: dict[str, float] = {}

    def tell(details: RetryDetails) -> None:
        why, now = str(details.caused_by), time.monotonic()
        if now >= told.get(why, -RETRIES_TOLD_EVERY_S) + RETRIES_TOLD_EVERY_S:
            told[why] = now
            say(f"{why} Asked again in {details.wait_for:.1f} s.")

    set_on_retry_hooks([tell])


def evaluate(wanted: Wanted, target: Target, selection: Selection, limits: Limits) -> int:
    if not wanted.files:
        raise InvalidInput("Name at least one file of questions, or a set: parallelsearch eval FILE … --out FOLDER")
    if target.direct and len(wanted.models) > 1:
        raise InvalidInput(
            "Asked straight, a policy has one model: leave --direct out, or run each model into a folder of its own."
        )
    if target.layout is not None and not target.direct:
        raise InvalidInput("The gateway's layout is its own (POLICY_LAYOUT): --layout goes with --direct.")
    if wanted.out is None:
        raise InvalidInput("Say where the run is kept: --out FOLDER. The same command again goes on where it stopped.")
    needs_libraries()
    selected = tuple(chosen(source, selection) for source in map(read_set, wanted.files))
    folder = RunFolder(wanted.out)
    try:
        asyncio.run(_evaluate(folder, wanted, target, selected, limits))
    except KeyboardInterrupt:
        say(f"stopped; what is finished is in {wanted.out}, and the same command goes on from there")
        return 130
    return 0


async def _evaluate(folder: RunFolder, wanted: Wanted, target: Target, selected: tuple[Selected, ...], limits: Limits) -> None:
    from parallelsearch.evaluation.reports.writing import write_run_report

    model = wanted.models[0] if target.direct and wanted.models else None
    async with connected(target, model, limits) as there:
        plan = Plan(
            selected=selected,
            modes=wanted.modes,
            models=wanted.models,
            limits=limits,
            stack=there.stack,
            concurrency=wanted.concurrency,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit(),
            machine=machine(),
            note=wanted.note,
        )
        run = await carry_out(folder, plan, there.asker, say)
    for path in write_run_report(folder, run).paths:
        say(str(path))


def compare(a: str, b: str, out: Path | None) -> int:
    from parallelsearch.evaluation.comparing import compare_sides
    from parallelsearch.evaluation.reports.comparison_sections import comparison_sections
    from parallelsearch.evaluation.reports.markdown import render_markdown
    from parallelsearch.evaluation.reports.writing import write_comparison

    needs_libraries()
    sides = read_side(a), read_side(b)
    if out is None:
        title = f"{sides[0].label} against {sides[1].label}"
        sys.stdout.write(render_markdown(title, comparison_sections(compare_sides(*sides))))
        return 0
    _, paths = write_comparison(out, *sides)
    for path in paths:
        say(str(path))
    return 0


def report(folders: list[Path]) -> int:
    from parallelsearch.evaluation.reports.writing import write_run_report

    needs_libraries()
    for path in folders:
        folder = RunFolder(path)
        run = read_manifest(folder)
        if run is None:
            raise InvalidInput(f"{path} holds no evaluation run.")
        for written in write_run_report(folder, run).paths:
            say(str(written))
    return 0


def watch(watched: Watch, target: Target, selection: Selection, limits: Limits, mode: Mode, models: tuple[str, ...]) -> int:
    needs_libraries()
    selected = chosen(read_set(str(watched.file)), selection)
    try:
        asyncio.run(_watch(watched, target, selected, limits, mode, models))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    return 0


async def _watch(watched: Watch, target: Target, selected: Selected, limits: Limits, mode: Mode, models: tuple[str, ...]) -> None:
    from prometheus_client import CollectorRegistry, start_http_server

    from parallelsearch.evaluation.canary import Canary, CanaryMetrics

    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(watched.port, addr=watched.host, registry=registry)
    except OSError as error:
        raise ConfigurationError(f"The canary cannot listen on {watched.host}:{watched.port}: {error.strerror}.") from error
    say(f"metrics on http://{watched.host}:{watched.port}/metrics")
    ended = asyncio.current_task()
    if ended is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.cancel)
    model = models[0] if models else ""
    try:
        async with connected(target, model or None, limits) as there:
            canary = Canary(selected.questions, there.asker, CanaryMetrics(registry), limits, mode=mode, model=model)
            await canary.run(watched.interval_s, say, rounds=watched.rounds)
    finally:
        server.shutdown()
        thread.join()


def connected(target: Target, model: str | None, limits: Limits) -> AbstractAsyncContextManager[Connected]:
    """Connects to what is named, else to the platform that runs here."""
    tell_of_retries()
    addresses = Addresses(
        gateway=here.gateway_url(target.url),
        policy=target.policy or here.service_url("policy"),
        retriever=target.retriever or here.service_url("retriever"),
        direct=target.direct,
        api_key=here.api_key(),
        policy_api_key=here.environment().get(POLICY_KEY, ""),
    )
    return connect(
        addresses, model=model, cache=target.cache, corpus=target.corpus, timeout_s=limits.deadline_s, layout=target.layout
    )


def read_set(name: str) -> QuestionSet:
    """A file, or a named set; what cannot be asked is said."""
    path = Path(name)
    source = read_questions(path) if path.exists() or path.suffix else load_named_set(name)
    for fault in source.faults[:FAULTS_SHOWN]:
        say(f"cannot be asked: {fault}")
    if len(source.faults) > FAULTS_SHOWN:
        say(f"… and {len(source.faults) - FAULTS_SHOWN} more rows of {source.source}; the report lists them all")
    return source


def chosen(source: QuestionSet, selection: Selection) -> Selected:
    selected = select(source, selection)
    left_out = "".join(f", {count} {reason}" for reason, count in selected.left_out.items())
    faults = f", {len(source.faults)} cannot be read" if source.faults else ""
    say(f"{source.source}: {len(selected.questions)} of {source.rows} rows are asked{left_out}{faults}")
    return selected


def needs_libraries() -> None:
    """Says before a long run, not after it, that its report could not be made."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"Evaluating needs {', '.join(missing)}: python -m pip install {' '.join(missing)}.")


def commit() -> str:
    """The commit of the code that runs: as told, as git says, else the release."""
    if told := os.environ.get(COMMIT):
        return told
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    return f"release {version('parallelsearch')}"


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"
