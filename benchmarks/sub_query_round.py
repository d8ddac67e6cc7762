"""How long one round of sub-queries takes: as one request, one by one, and at the named baseline.

    python benchmarks/sub_query_round.py --index DIR --data FOLDER [--rounds 30]

Every sub-query is asked once (caches cold). The three ways take turns in random order within each round, so that whatever
else the machine does falls on all alike; both servers are up the whole time, idle while the other works.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import Connection, baseline, distinct_questions, markdown, ours, percentile, write_report

SIZES = (1, 8, 32)


@dataclass(frozen=True)
class Row:
    sub_queries: int
    rounds: int
    ours_ms: float
    ours_one_by_one_ms: float
    baseline_ms: float
    of_baseline: float
    of_one_by_one: float


async def timed(ask: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await ask()
    return time.perf_counter() - started


async def measure(own: Connection, theirs: Connection, questions: list[str], size: int, rounds: int) -> Row:
    """Medians over the rounds; each way asks its own questions."""
    stock, spent = iter(questions), {"ours": [], "one by one": [], "baseline": []}

    def body(texts: list[str]) -> dict[str, object]:
        return {"queries": texts, "topk": 3, "return_scores": True}

    def together(connection: Connection) -> Callable[[], Awaitable[object]]:
        texts = [next(stock) for _ in range(size)]
        return lambda: connection.post("/retrieve", body(texts))

    def one_by_one() -> Callable[[], Awaitable[object]]:
        texts = [next(stock) for _ in range(size)]

        async def ask() -> None:
            for text in texts:
                await own.post("/retrieve", body([text]))

        return ask

    for _ in range(rounds):
        ways = [("ours", together(own)), ("one by one", one_by_one()), ("baseline", together(theirs))]
        random.shuffle(ways)
        for name, ask in ways:
            spent[name].append(await timed(ask))
    mine, single, base = (percentile(spent[name], 0.5) * 1000 for name in ("ours", "one by one", "baseline"))
    return Row(size, rounds, round(mine, 1), round(single, 1), round(base, 1), round(mine / base, 2), round(mine / single, 2))


async def run(own_port: int, base_port: int, questions: list[str], rounds: int) -> list[Row]:
    own, theirs = Connection(own_port), Connection(base_port)
    rows, used = [], 0
    for size in SIZES:
        await measure(own, theirs, questions[used : used + 9 * size], size, 3)  # warm-up
        used += 9 * size
        rows.append(await measure(own, theirs, questions[used : used + 3 * size * rounds], size, rounds))
        used += 3 * size * rounds
    own.close()
    theirs.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    questions, port = distinct_questions(chosen.data), 18_100 + os.getpid() % 80
    with ours(chosen.index, port), baseline(chosen.index, port + 1):
        rows = asyncio.run(run(port, port + 1, questions, chosen.rounds))
    table = markdown("sub-queries | rounds | one request, ms | one by one, ms | baseline, ms | / baseline | / one by one", rows)
    note = "\nTargets at 8 and 32 sub-queries: at most 0.5 of the baseline, at most 0.4 of our own requests one by one.\n"
    write_report("sub_query_round", "Retriever: one round of sub-queries", table + note, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
