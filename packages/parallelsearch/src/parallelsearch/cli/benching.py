"""What `bench` does: clients that ask one thing after the other, for so many seconds, and what came of it."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import orjson
from rich.console import Console
from rich.table import Table

from parallelsearch.cli import failures, here
from parallelsearch.cli.bench import Work
from parallelsearch.clients.answers import AnswersClient
from parallelsearch.demo import demo_file
from parallelsearch.errors import ParallelSearchError
from parallelsearch.schemas.answers import AnswerRequest, CacheUse, SearchRequest

AFTER_A_FAILURE_S = 0.1
Body = AnswerRequest | SearchRequest


@dataclass(frozen=True, slots=True)
class Row:
    """One number of clients. Times of what was answered, in milliseconds; None where nothing was."""

    clients: int
    answered: int
    failed: int
    per_s: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class _Tally:
    took_ms: list[float] = field(default_factory=list)
    failed: int = 0


def bench(what: Work, clients: Sequence[int], seconds: float, url: str | None, *, use_cache: bool, as_json: bool) -> int:
    rows = asyncio.run(_measure(bodies(what, "use" if use_cache else "bypass"), clients, seconds, here.gateway_url(url)))
    if as_json:
        sys.stdout.write(orjson.dumps({"what": what, "seconds": seconds, "rows": rows}).decode() + "\n")
    else:
        draw(Console(), rows)
    return failures.NOT_ANSWERED if any(row.failed for row in rows) else 0


def bodies(what: Work, cache: CacheUse) -> Iterator[Body]:
    """Without end. Past the cache no two searches have the same text, so that each is encoded."""
    lines = demo_file("questions.jsonl").read_bytes().splitlines()
    questions: list[str] = [orjson.loads(line)["question"] for line in lines]
    for number, question in enumerate(itertools.cycle(questions)):
        if what is Work.ASK:
            yield AnswerRequest(question=question, cache=cache)
        else:
            yield SearchRequest(queries=[question if cache == "use" else f"{question} {number}"], cache=cache)


async def _send(client: AnswersClient, body: Body) -> None:
    await (client.answer(body) if isinstance(body, AnswerRequest) else client.search(body))


async def _measure(asked: Iterator[Body], clients: Sequence[int], seconds: float, url: str) -> list[Row]:
    """Raises what the first request runs into: it is asked beforehand and not counted."""
    client, console = AnswersClient(url, api_key=here.api_key()), Console(stderr=True)
    try:
        await _send(client, next(asked))
        rows = []
        for number in clients:
            with console.status(f"{number} at once …") if console.is_terminal else nullcontext():
                rows.append(await _row(client, asked, number, seconds))
        return rows
    finally:
        await client.close()


async def _row(client: AnswersClient, asked: Iterator[Body], clients: int, seconds: float) -> Row:
    tally, started = _Tally(), time.perf_counter()

    async def ask_on() -> None:
        while (sent := time.perf_counter()) < started + seconds:
            try:
                await _send(client, next(asked))
            except ParallelSearchError:
                tally.failed += 1
                await asyncio.sleep(AFTER_A_FAILURE_S)
            else:
                tally.took_ms.append((time.perf_counter() - sent) * 1000)

    await asyncio.gather(*(ask_on() for _ in range(clients)))
    took = sorted(tally.took_ms)
    per_s = round(len(took) / (time.perf_counter() - started), 1)
    return Row(clients, len(took), tally.failed, per_s, _at(took, 0.5), _at(took, 0.99))


def _at(ascending: Sequence[float], share: float) -> float | None:
    return round(ascending[min(len(ascending) - 1, int(len(ascending) * share))], 1) if ascending else None


def draw(console: Console, rows: Sequence[Row]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("clients", "answered", "failed", "per s", "p50 ms", "p99 ms"):
        table.add_column(title, justify="right")
    for row in rows:
        times = ("–" if at is None else f"{at:g}" for at in (row.p50_ms, row.p99_ms))
        table.add_row(str(row.clients), str(row.answered), str(row.failed), f"{row.per_s:g}", *times)
    console.print(table)
