"""Queries a second and latency of a running retriever at 1 to 512 clients, and where the time went.

    python benchmarks/gpu/retriever_clients.py [--port 8001] [--seconds 5] [--out FILE]

Closed loop: each client asks its next request as soon as the last is answered. Every query is asked once. The split is the
mean of what the retriever says in `Server-Timing`; what it leaves out is HTTP, and waiting for a turn of the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serving import Connection, markdown, percentile

LOADS = ((1, 1), (8, 1), (64, 1), (512, 1), (64, 8), (64, 64))
"""Clients, and queries in each request."""
WORDS = ("who", "what", "where", "river", "king", "city", "album", "film", "author", "born", "capital", "of", "the", "in", "year")
HEADINGS = (
    "clients | queries a request | requests | failed | queries/s | p50 ms | p99 ms | queue ms | encode ms | search ms | load ms | "
    "generator cores"
)


@dataclass(frozen=True)
class Row:
    clients: int
    queries_a_request: int
    requests: int
    failed: int
    per_s: float
    p50_ms: float
    p99_ms: float
    queue_ms: float
    encode_ms: float
    search_ms: float
    load_ms: float
    generator_cores: float


def queries(seed: int) -> Iterator[str]:
    """Endless, 6 to 22 words each, none twice."""
    random, number = np.random.default_rng(seed), 0
    while True:
        for length in random.integers(5, 22, 1_000):
            number += 1
            yield f"{' '.join(random.choice(WORDS, length))} {seed} {number}"


async def load(port: int, clients: int, size: int, seconds: float, seed: int) -> Row:
    stock, latencies, failed = queries(seed), [], 0
    made = [[next(stock) for _ in range(size)] for _ in range(int(seconds * 20_000 / size) + clients)]
    remaining = iter(made)
    splits: list[list[float]] = []
    connections = [Connection(port) for _ in range(clients)]
    started, before = time.perf_counter(), time.process_time()
    end = started + seconds

    async def client(connection: Connection) -> None:
        nonlocal failed
        for texts in remaining:
            if time.perf_counter() > end:
                return
            sent = time.perf_counter()
            status, _ = await connection.post("/retrieve", {"queries": texts, "topk": 3, "return_scores": True})
            latencies.append(time.perf_counter() - sent)
            failed += status != 200
            splits.append([float(value) for value in re.findall(r"dur=([\d.]+)", connection.head)])

    await asyncio.gather(*map(client, connections))
    took = time.perf_counter() - started
    for connection in connections:
        connection.close()
    split = [round(float(value), 2) for value in np.mean([each for each in splits if len(each) == 4], axis=0)]
    p50, p99 = (round(percentile(latencies, share) * 1e3, 1) for share in (0.5, 0.99))
    cores = round((time.process_time() - before) / took, 2)
    return Row(clients, size, len(latencies), failed, round(len(latencies) * size / took, 1), p50, p99, *split, cores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    asyncio.run(load(chosen.port, 64, 1, min(2, chosen.seconds), 1))  # warm-up
    rows = []
    for number, (clients, size) in enumerate(LOADS):
        rows.append(asyncio.run(load(chosen.port, clients, size, chosen.seconds, 100 + number)))
    print(markdown(HEADINGS, rows))
    if chosen.out:
        chosen.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
