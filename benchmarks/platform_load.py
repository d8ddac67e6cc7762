"""Rollouts per second of a running platform, and where their time goes.

Asks the questions of a file through the gateway, a fixed number at a time and with caches off, in parallel and in sequential mode.
For each number in flight it prints rollouts/s, p50 and p99 of an answer, LLM calls, exact match, and how time splits into policy
(generation), search and the gateway's own. The sequential mode of the same run is what the parallel one is compared with.

usage: python benchmarks/platform_load.py QUESTIONS.jsonl --out FILE.json [--url URL] [--in-flight 1 16 64 256] [--rollouts 256]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from parallelsearch.reward.exact_match import exact_match

TIMEOUT_S = 120


@dataclass(frozen=True)
class Row:
    """One mode at one number in flight. Times in milliseconds; shares are of the summed time of all answers."""

    mode: str
    in_flight: int
    rollouts: int
    failed: int
    rollouts_per_s: float
    p50_ms: float
    p99_ms: float
    llm_calls: float
    exact_match: float
    policy_share: float
    search_share: float
    own_share: float


def read_questions(path: Path, types: list[str]) -> list[dict]:
    rows = [json.loads(line) for line in path.read_text().splitlines() if line]
    return [row for row in rows if row.get("answerable", True) and (not types or row.get("type") in types)]


async def ask(session: aiohttp.ClientSession, url: str, question: dict, mode: str) -> tuple[dict | None, float]:
    body = {"question": question["question"], "mode": mode, "cache": "bypass", "deadline_s": TIMEOUT_S}
    started = time.perf_counter()
    async with session.post(f"{url}/v1/answers", json=body) as response:
        answer = await response.json(content_type=None)
        return (answer if response.status == 200 else None), (time.perf_counter() - started) * 1000


async def measure(url: str, questions: list[dict], mode: str, in_flight: int, rollouts: int) -> Row:
    todo = iter(list(itertools.islice(itertools.cycle(questions), rollouts)))
    done: list[tuple[dict, dict | None, float]] = []

    async def work(session: aiohttp.ClientSession) -> None:
        for question in todo:
            done.append((question, *await ask(session, url, question, mode)))

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S + 10)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        started = time.perf_counter()
        await asyncio.gather(*(work(session) for _ in range(in_flight)))
        seconds = time.perf_counter() - started
    answered = [(question, answer, ms) for question, answer, ms in done if answer is not None]
    timings = [answer["timings"] for _, answer, _ in answered]
    total = sum(each["total_ms"] for each in timings) or 1.0
    latencies = sorted(ms for _, _, ms in answered) or [0.0]
    right = [exact_match(answer["answer"], question["golden_answers"]) for question, answer, _ in answered]
    return Row(
        mode=mode,
        in_flight=in_flight,
        rollouts=len(done),
        failed=len(done) - len(answered),
        rollouts_per_s=round(len(answered) / seconds, 2),
        p50_ms=round(statistics.median(latencies), 1),
        p99_ms=round(latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))], 1),
        llm_calls=round(statistics.fmean([answer["usage"]["llm_calls"] for _, answer, _ in answered] or [0]), 3),
        exact_match=round(statistics.fmean(right or [0]), 3),
        policy_share=round(sum(each["policy_ms"] for each in timings) / total, 4),
        search_share=round(sum(each["search_ms"] for each in timings) / total, 4),
        own_share=round(sum(each["overhead_ms"] for each in timings) / total, 4),
    )


def table(rows: list[Row]) -> str:
    names = list(asdict(rows[0]))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(value) for value in asdict(row).values()) + " |" for row in rows]
    by = {(row.mode, row.in_flight): row for row in rows}
    for in_flight in sorted({row.in_flight for row in rows}):
        parallel, sequential = by.get(("parallel", in_flight)), by.get(("sequential", in_flight))
        if parallel and sequential and sequential.p50_ms and sequential.llm_calls:
            lines.append(
                f"\n{in_flight} in flight: p50 parallel / sequential {parallel.p50_ms / sequential.p50_ms:.2f}, "
                f"LLM calls {parallel.llm_calls / sequential.llm_calls:.2f}"
            )
    return "\n".join(lines)


async def run(options: argparse.Namespace) -> None:
    questions = read_questions(options.questions, options.type)
    rows = []
    await measure(options.url, questions, "parallel", 8, 16)  # warm
    for in_flight in options.in_flight:
        for mode in options.mode:
            rollouts = min(options.rollouts, max(24, in_flight * 3))
            rows.append(await measure(options.url, questions, mode, in_flight, rollouts))
            print(rows[-1], file=sys.stderr, flush=True)
            head = {"date": datetime.now(UTC).date().isoformat(), "machine": options.machine, "questions": options.questions.name}
            report = head | {"types": options.type, "rows": [asdict(row) for row in rows]}
            options.out.write_text(json.dumps(report, indent=1))
    print(table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--rollouts", type=int, default=768)
    parser.add_argument("--mode", nargs="+", default=["parallel", "sequential"])
    parser.add_argument("--type", nargs="*", default=["comparison"], help="kinds of question by data-set type; none for all")
    parser.add_argument("--machine", default="")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
