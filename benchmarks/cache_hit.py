"""What a cache hit costs, and how often one row is searched for when a thousand ask at once.

    python benchmarks/cache_hit.py [--rounds 400]

The retriever stands in and takes 20 ms; Redis, gateway and load generator are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from gateway_own_time import start
from serving import Connection, percentile, write_report

BATCH, AT_ONCE = 8, 1_000


async def timed(connection: Connection, queries: list[str]) -> float:
    started = time.perf_counter()
    status, body = await connection.post("/v1/search", {"queries": queries})
    assert status == 200, body[:300]
    return (time.perf_counter() - started) * 1000


async def hits(port: int, rounds: int) -> dict[str, float]:
    """One caller: batches of 8 that were never asked before, then the same again."""
    connection = Connection(port)
    batches = [[f"Who was number {number} in row {row}?" for number in range(BATCH)] for row in range(rounds)]
    misses = [await timed(connection, batch) for batch in batches]
    found = [await timed(connection, batch) for batch in batches]
    connection.close()
    return {
        "hit p50 ms": round(percentile(found, 0.5), 2),
        "hit p99 ms": round(percentile(found, 0.99), 2),
        "miss p50 ms": round(percentile(misses, 0.5), 2),
    }


async def crowd(port: int) -> float:
    """Seconds for so many callers who all want the same row at once."""
    connections = [Connection(port) for _ in range(AT_ONCE)]
    await asyncio.gather(*(timed(connection, []) for connection in connections))
    started = time.perf_counter()
    await asyncio.gather(*(timed(connection, ["Who was asked for by all?"]) for connection in connections))
    return time.perf_counter() - started


def searched(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port + 2}/searched", timeout=5) as answer:
        return json.loads(answer.read())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--port", type=int, default=18_520)
    parser.add_argument("--no-report", action="store_true")
    chosen = parser.parse_args()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        gateway = start(stack, chosen.port, Path(folder))
        results: dict[str, float] = asyncio.run(hits(gateway.port, chosen.rounds))
        before = searched(chosen.port)
        results[f"seconds for {AT_ONCE:,} identical at once"] = round(asyncio.run(crowd(gateway.port)), 2)
        results[f"searches for {AT_ONCE:,} identical at once"] = searched(chosen.port) - before
    table = "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in results.items())
    if chosen.no_report:
        print(table)
        return
    note = f"Batches of {BATCH}. Targets: a hit at most 2 ms p50; one search for {AT_ONCE:,} identical sub-queries at once."
    write_report("cache_hit", "Gateway: cache hits and single flight", table, results, note)


if __name__ == "__main__":
    main()
