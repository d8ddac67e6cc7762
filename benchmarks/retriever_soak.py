"""Ten minutes of 64 clients against the retriever: memory, descriptors and threads at the start, each minute, and after the end.

    python benchmarks/retriever_soak.py --index DIR --data FOLDER [--minutes 10] [--clients 64]

Half of the queries are new, half were asked before, so that caches fill and turn over; each client opens a new connection for
every hundredth request, and every fiftieth request is left before its answer. The last line is taken ten seconds after the last
client has gone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import Connection, Server, distinct_questions, markdown, ours, write_report

SETTLED_S = 10
REQUESTS_A_CONNECTION, REQUESTS_A_DEPARTURE = 100, 50
CACHED_QUERIES = 4_000
"""Fewer than are asked, so that the cache of query vectors reaches its bound within the run."""


@dataclass(frozen=True)
class Sample:
    minute: float
    answered: int
    failed: int
    left: int
    memory_mb: float
    descriptors: int
    threads: int


class Soak:
    def __init__(self, server: Server, questions: list[str]) -> None:
        self._server, self._questions = server, questions
        self._numbers = itertools.count()
        self.answered = self.failed = self.left = 0
        self.started = time.perf_counter()

    def sample(self) -> Sample:
        process = self._server.process
        minute = round((time.perf_counter() - self.started) / 60, 1)
        memory = round(self._server.memory_mb(), 1)
        return Sample(minute, self.answered, self.failed, self.left, memory, process.num_fds(), process.num_threads())

    def _query(self) -> str:
        number = next(self._numbers)
        question = self._questions[number % len(self._questions)]
        return f"{question} ({number})" if number % 2 else random.choice(self._questions[:500])

    async def client(self, end: float) -> None:
        while time.perf_counter() < end:
            connection = Connection(self._server.port)
            for turn in range(1, REQUESTS_A_CONNECTION + 1):
                if time.perf_counter() > end:
                    break
                asked = connection.post("/retrieve", {"queries": [self._query()], "topk": 3})
                if turn % REQUESTS_A_DEPARTURE == 0:
                    try:
                        await asyncio.wait_for(asked, 0.002)
                    except TimeoutError:
                        self.left += 1
                        break
                else:
                    status, _ = await asked
                    self.answered += status == 200
                    self.failed += status != 200
            connection.close()

    async def run(self, clients: int, minutes: float) -> list[Sample]:
        samples, end = [self.sample()], self.started + minutes * 60
        working = [asyncio.create_task(self.client(end)) for _ in range(clients)]
        for minute in range(1, int(minutes) + 1):
            await asyncio.sleep(max(0.0, self.started + minute * 60 - time.perf_counter()))
            samples.append(self.sample())
        await asyncio.gather(*working)
        await asyncio.sleep(SETTLED_S)
        return [*samples, self.sample()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    chosen = parser.parse_args()
    questions, port = distinct_questions(chosen.data), 18_100 + os.getpid() % 80
    with ours(chosen.index, port, RETRIEVER_CACHED_QUERIES=str(CACHED_QUERIES)) as server:
        samples = asyncio.run(Soak(server, questions).run(chosen.clients, chosen.minutes))
    headings = "minute | answered | failed | left by their caller | memory, MB | descriptors | threads"
    first, last = samples[1 if len(samples) > 2 else 0], samples[-1]
    note = (
        f"From the first minute to the end: memory × {last.memory_mb / first.memory_mb:.2f}; "
        f"descriptors {samples[0].descriptors} before, {last.descriptors} after; threads {samples[0].threads} and {last.threads}."
    )
    write_report(
        "retriever_soak",
        f"Retriever: {chosen.minutes:g} minutes of {chosen.clients} clients",
        markdown(headings, samples),
        [asdict(each) for each in samples],
        note,
    )


if __name__ == "__main__":
    main()
