"""Seconds until the platform is ready on this machine's processors: the first start in a state folder, and those after it.

The first one merges the bundled policy and builds the demo index; later ones find both. Target: a second start in at most 60 s.
Everything is on ports of its own and is stopped between the starts.

usage: python benchmarks/time_to_ready.py [--starts 2] [--no-report]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import ROOT, markdown, write_report

SERVICES = ("GATEWAY", "RETRIEVER", "POLICY", "TRAINER")
GIVEN = ("REDIS_URL", "REDIS_PORT", "POLICY_BASE_URL", "RETRIEVER_INDEX")
"""What would have a part of the platform be another than its own."""


@dataclass(frozen=True)
class Start:
    """`ready_s` is what the platform says, `command_s` how long `parallelsearch up` took in all."""

    start: int
    ready_s: float
    command_s: float


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(folder: Path) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if name not in GIVEN}
    ports = {f"{service}_PORT": str(free_port()) for service in SERVICES}
    return outside | ports | {"PARALLELSEARCH_STATE_DIR": str(folder / "state"), "PARALLELSEARCH_CACHE_DIR": str(folder / "cache")}


def run(environ: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "parallelsearch", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True).stdout


def measure(number: int, environ: dict[str, str]) -> Start:
    began = time.perf_counter()
    try:
        run(environ, "up")
        took_s = time.perf_counter() - began
        return Start(number, round(json.loads(run(environ, "status", "--json"))["ready_after_s"], 1), round(took_s, 1))
    finally:
        run(environ, "down")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--no-report", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environ = environment(Path(folder))
        starts = [measure(number, environ) for number in range(1, chosen.starts + 1)]
    table = markdown("start | ready after, s | the command took, s", starts)
    load = f"Load average of the last 15 minutes at the end: {os.getloadavg()[2]:.1f}."
    if chosen.no_report:
        print(table + load)
        return
    notes = f"The first merges the bundled policy and builds the demo index. Target: a second start in at most 60 s. {load}"
    write_report("time_to_ready", "Time until the platform is ready", table, [asdict(start) for start in starts], notes)


if __name__ == "__main__":
    main()
