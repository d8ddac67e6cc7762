"""What benchmarks of the retriever share: real questions, a server process, a load generator that costs little, a report."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent


def distinct_questions(data: Path, seed: int = 7) -> list[str]:
    """Every question of every data set once, in a fixed random order."""
    found = {json.loads(line)["question"] for path in sorted(data.glob("*.jsonl")) for line in path.open() if '"question"' in line}
    questions = sorted(found)
    random.Random(seed).shuffle(questions)
    return questions


@dataclass(frozen=True)
class Server:
    name: str
    port: int
    process: psutil.Process

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system

    def memory_mb(self) -> float:
        return self.process.memory_info().rss / 1e6


@contextmanager
def served(name: str, command: Sequence[str], port: int, environment: dict[str, str] | None = None) -> Iterator[Server]:
    """Starts a server, waits until it is ready, and ends it."""
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(environment or {})}, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1_200):
            if process.poll() is not None:
                raise SystemExit(f"{name} ended with exit code {process.returncode} before it was ready: {' '.join(command)}")
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                break
            time.sleep(0.1)
        yield Server(name, port, psutil.Process(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def ours(index: Path, port: int, **settings: str) -> AbstractContextManager[Server]:
    environment = {"RETRIEVER_INDEX": str(index), "RETRIEVER_PORT": str(port), "RETRIEVER_LOG_LEVEL": "WARNING", **settings}
    return served("ours", [sys.executable, "-m", "retriever"], port, environment)


def baseline(index: Path, port: int) -> AbstractContextManager[Server]:
    command = [sys.executable, str(ROOT / "benchmarks" / "threaded_retriever.py"), str(index), str(port)]
    return served("baseline", command, port)


class Connection:
    """One keep-alive connection that posts JSON; a fraction of the cost of an HTTP library, the same for every server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.head = ""
        """Of the last answer: status line and headers."""

    async def post(self, path: str, body: object) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        reader, writer = self._streams
        payload = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        writer.write(head.encode() + payload)
        head_bytes = await reader.readuntil(b"\r\n\r\n")
        self.head = head_bytes.decode("latin-1")
        length = int(head_bytes.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(head_bytes[9:12]), await reader.readexactly(length)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    vector = ", ".join(flag for flag in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16") if flag in flags)
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores {model} ({vector}), {memory:.0f} GiB, Python {platform.python_version()}"


def markdown(headings: str, rows: Sequence[object]) -> str:
    """A table of dataclasses, a field a column; `headings` are divided by bars."""
    names = [name.strip() for name in headings.split("|")]
    lines = [names, ["---"] * len(names), *(list(map(str, asdict(row).values())) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write_report(name: str, title: str, table: str, results: object, note: str = "") -> None:
    """docs/results/NAME.md and NAME.json: the table, and everything that was measured, with date, commit and machine."""
    folder = ROOT / "docs" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    where = {"date": datetime.now(UTC).isoformat(timespec="minutes"), "commit": commit(), "machine": machine()}
    (folder / f"{name}.json").write_text(json.dumps({**where, "results": results}, indent=1) + "\n")
    head = f"# {title}\n\n{where['date']}, commit {where['commit']}, {where['machine']}. `python benchmarks/{name}.py`\n\n"
    (folder / f"{name}.md").write_text(head + table + (f"\n{note}\n" if note else ""))
    print(head + table + note)
