"""Queries a second and latency of the retriever against the named baseline: 64 clients, and one.

    python benchmarks/retriever_throughput.py --index DIR --data FOLDER [--seconds 12]

Every query of a run is asked once (caches cold); the warm figure asks the same queries again. Both servers run one after the
other on the same machine, index and questions; the load generator runs beside them and its share of the CPU is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import Connection, Server, baseline, distinct_questions, markdown, ours, percentile, write_report


@dataclass(frozen=True)
class Run:
    server: str
    clients: int
    queries: str
    requests: int
    failed: int
    per_s: float
    p50_ms: float
    p99_ms: float
    server_cpu_ms: float
    """CPU time of the server per query: what other load on the machine changes least."""
    server_cores: float
    generator_cores: float


async def load(server: Server, questions: list[str], clients: int, seconds: float, queries: str) -> Run:
    """Closed loop: each client asks its next question as soon as the last is answered."""
    remaining, latencies, failed = iter(questions), [], 0
    connections = [Connection(server.port) for _ in range(clients)]
    started, ours_before, theirs_before = time.perf_counter(), time.process_time(), server.cpu_s()
    end = started + seconds

    async def client(connection: Connection) -> None:
        nonlocal failed
        for question in remaining:
            if time.perf_counter() > end:
                return
            sent = time.perf_counter()
            status, _ = await connection.post("/retrieve", {"queries": [question], "topk": 3, "return_scores": True})
            latencies.append(time.perf_counter() - sent)
            failed += status != 200

    await asyncio.gather(*map(client, connections))
    took = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return Run(
        server.name,
        clients,
        queries,
        len(latencies),
        failed,
        round(len(latencies) / took, 1),
        round(percentile(latencies, 0.5) * 1000, 1),
        round(percentile(latencies, 0.99) * 1000, 1),
        round((server.cpu_s() - theirs_before) / len(latencies) * 1000, 2),
        round((server.cpu_s() - theirs_before) / took, 2),
        round((time.process_time() - ours_before) / took, 2),
    )


def measure(server: Server, questions: list[str], seconds: float) -> list[Run]:
    """Disjoint questions for each cold run, so that no cache helps."""
    warm_up, alone, crowd = questions[:200], questions[200:1_500], questions[1_500:]
    asyncio.run(load(server, warm_up, 64, seconds, "warm-up"))
    runs = [asyncio.run(load(server, alone, 1, seconds / 2, "distinct"))]
    runs.append(asyncio.run(load(server, crowd, 64, seconds, "distinct")))
    asked = crowd[: runs[-1].requests]
    runs.append(asyncio.run(load(server, asked, 64, seconds, "asked before")))
    return runs


HEADINGS = (
    "server | clients | queries | answered | failed | per s | p50 ms | p99 ms | "
    "server CPU ms/query | server cores | generator cores"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--only-ours", action="store_true", help="for tuning; writes no report")
    chosen = parser.parse_args()
    questions = distinct_questions(chosen.data)
    port = 18_100 + os.getpid() % 90
    with ours(chosen.index, port) as server:
        mine = measure(server, questions, chosen.seconds)
    if chosen.only_ours:
        print(markdown(HEADINGS, mine))
        return
    with baseline(chosen.index, port) as server:
        theirs = measure(server, questions, chosen.seconds)
    (alone, crowd, _), (base_alone, base_crowd, _) = mine, theirs
    ratios = {
        "queries/s at 64 clients, ours / baseline (target: at least 8)": crowd.per_s / base_crowd.per_s,
        "p99 at 64 clients, ours / baseline (target: at most 0.2)": crowd.p99_ms / base_crowd.p99_ms,
        "p50 alone, ours / baseline (target: at most 1)": alone.p50_ms / base_alone.p50_ms,
    }
    lines = "\n" + "".join(f"- {name}: {value:.2f}\n" for name, value in ratios.items())
    results = {"runs": [asdict(run) for run in mine + theirs], "ratios": ratios}
    title = "Retriever: throughput against a threaded per-request server"
    write_report("retriever_throughput", title, markdown(HEADINGS, mine + theirs) + lines, results)


if __name__ == "__main__":
    main()
