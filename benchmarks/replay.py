"""The cache over a replay of real questions: its hit ratio, and what it saves.

    python benchmarks/replay.py QUESTIONS.jsonl [--requests 2000] [--skew 0.8]

Questions of a file (their supporting titles and the question itself are the sub-queries of one round) are asked in an order in
which few are asked often: the chance of the question of rank r is in proportion to r to the power of minus skew. Each request is
one round through the gateway's `/v1/search`, once with the cache and once past it. A retriever that takes 20 ms stands in; Redis
and gateway are real.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson
from gateway_own_time import RETRIEVER_S, start
from serving import Connection, percentile, write_report

CALLERS = 8
Round = tuple[str, ...]


def rounds_of(path: Path) -> list[Round]:
    """For each question of the file the sub-queries of a round: its supporting titles, or itself."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line]
    return [tuple(dict.fromkeys([*row.get("supporting_titles", []), row["question"]])) for row in rows]


def replayed(rounds: Sequence[Round], requests: int, skew: float) -> list[Round]:
    chance = random.Random(7)
    ranked = chance.sample(list(rounds), len(rounds))
    return chance.choices(ranked, [(rank + 1) ** -skew for rank in range(len(ranked))], k=requests)


async def ask(port: int, todo: Sequence[Round], cache: str) -> tuple[list[float], int, int]:
    """Milliseconds of each round, sub-queries asked, and how many of them were cached."""
    waiting, took, asked, cached = iter(todo), [], 0, 0

    async def caller() -> None:
        nonlocal asked, cached
        connection = Connection(port)
        for queries in waiting:
            started = time.perf_counter()
            status, body = await connection.post("/v1/search", {"queries": queries, "cache": cache})
            took.append((time.perf_counter() - started) * 1000)
            assert status == 200, body[:300]
            found = orjson.loads(body)["results"]
            asked += len(found)
            cached += sum(result["cached"] for result in found)
        connection.close()

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return took, asked, cached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--skew", type=float, default=0.8)
    parser.add_argument("--port", type=int, default=18_560)
    parser.add_argument("--no-report", action="store_true")
    chosen = parser.parse_args()
    known = rounds_of(chosen.questions)
    todo = replayed(known, chosen.requests, chosen.skew)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        gateway = start(stack, chosen.port, Path(folder))
        past, _, _ = asyncio.run(ask(gateway.port, todo, "bypass"))
        with_cache, asked, cached = asyncio.run(ask(gateway.port, todo, "use"))
    results = {
        "questions": len(known),
        "requests": len(todo),
        "distinct among them": len(set(todo)),
        "sub-queries": asked,
        "hit ratio": round(cached / asked, 3),
        "search p50 ms, with the cache": round(percentile(with_cache, 0.5), 2),
        "search p50 ms, past it": round(percentile(past, 0.5), 2),
        "search time saved": round(1 - sum(with_cache) / sum(past), 3),
    }
    table = "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in results.items())
    if chosen.no_report:
        print(table)
        return
    note = (
        f"Questions of {chosen.questions.name}, skew {chosen.skew:g}, {CALLERS} callers, a retriever of {RETRIEVER_S * 1000:g} ms. "
        "The ratio is that of the order of the replay: nobody's log of questions was at hand."
    )
    write_report("replay", "Gateway: the cache over a replay of questions", table, results, note)


if __name__ == "__main__":
    main()
