"""The gateway's memory, descriptors and threads over thousands of answers, some of whose callers hang up.

    python benchmarks/gateway_memory.py [--answers 10000]

Upstreams stand in and answer at once; every question is new. Every tenth answer is streamed to a caller who leaves early.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import gateway_own_time
from serving import Connection, Server, write_report

CALLERS, SAMPLES = 32, 10


async def run(gateway: Server, answers: int) -> list[dict[str, float]]:
    """One line for each tenth of the way."""
    numbers, samples = iter(range(answers)), []

    async def caller() -> None:
        connection = Connection(gateway.port)
        for number in numbers:
            question = {"question": f"Who was first, number {number} or the other?"}
            if number % 10 == 9:
                await leave_early(gateway.port, question)
            else:
                status, _ = await connection.post("/v1/answers", question)
                assert status == 200
            if number % (answers // SAMPLES) == 0:
                samples.append(sample(gateway, number))
        connection.close()

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    await asyncio.sleep(6)
    return [*samples, sample(gateway, answers)]


async def leave_early(port: int, body: dict) -> None:
    connection = Connection(port)
    with_stream = asyncio.create_task(connection.post("/v1/answers", body | {"stream": True}))
    await asyncio.sleep(0.005)
    with_stream.cancel()
    await asyncio.gather(with_stream, return_exceptions=True)
    connection.close()


def sample(gateway: Server, number: int) -> dict[str, float]:
    process = gateway.process
    return {
        "answers": number,
        "memory MB": round(gateway.memory_mb(), 1),
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=18_540)
    parser.add_argument("--no-report", action="store_true")
    chosen = parser.parse_args()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        gateway = gateway_own_time.start(stack, chosen.port, Path(folder), policy_s=0.0, retriever_s=0.0)
        samples = asyncio.run(run(gateway, chosen.answers))
    table = "| " + " | ".join(samples[0]) + " |\n" + "|---" * len(samples[0]) + "|\n"
    table += "".join("| " + " | ".join(map(str, row.values())) + " |\n" for row in samples)
    if chosen.no_report:
        print(table)
        return
    write_report("gateway_memory", "Gateway: memory over many answers", table, samples, "Target: flat over 10,000 answers.")


if __name__ == "__main__":
    main()
