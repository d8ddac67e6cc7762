"""Peak memory of a build against one block of vectors plus the trained index, by number of passages.

    python benchmarks/build_memory.py [--kind flat --kind ivf_sq8 --kind hnsw] [--passages 20000 --passages 40000] [--block 10000]

The corpus is generated. What a flat build of a few hundred passages takes, which is Python, torch, the encoder and its working
memory, is measured apart and taken off: the rest is what grows with block, corpus and kind. Target: at most 1.5 × (one block of
float32 vectors + the trained index).

Counted is resident memory as the kernel counts its peak (`ru_maxrss`), in which pages of mapped files count too, though the kernel
takes them back when it needs them. The peak of what it cannot take back (RssAnon, read every few milliseconds) stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serving import markdown, write_report

SMALL = 512
ENCODER = "minilm"
WORDS = ("amber", "bridge", "candle", "delta", "ember", "forest", "garden", "harbor", "island", "jungle", "kernel", "lantern")


@dataclass(frozen=True)
class Peak:
    """In MB: resident, and of that the memory which no file stands behind."""

    resident: float
    private: float


@dataclass(frozen=True)
class Row:
    kind: str
    passages: int
    block: int
    peak_mb: float
    above_small_mb: float
    private_above_small_mb: float
    block_mb: float
    index_mb: float
    of_target: float
    """Resident above the small build, over block plus index."""
    private_of_target: float


def peak_of(corpus: Path, out: Path, kind: str, block: int) -> Peak:
    """The most memory that the building process held."""
    command = [sys.executable, "-m", "retriever", "index", "build", str(corpus), "--out", str(out), "--encoder", ENCODER]
    process = subprocess.Popen([*command, "--kind", kind, "--block-passages", str(block)], stderr=subprocess.DEVNULL)
    private = 0.0
    while True:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        private = max(private, private_mb(process.pid))
        time.sleep(0.005)
    if status:
        raise SystemExit(f"the build ended with status {status}: {' '.join(command)}")
    return Peak(used.ru_maxrss * 1.024 / 1e3, private)


def private_mb(pid: int) -> float:
    """0 when it has just ended."""
    found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) * 1.024 / 1e3 if found else 0.0


def write_corpus(path: Path, passages: int) -> Path:
    random.seed(1)
    with path.open("w") as file:
        for number in range(passages):
            text = " ".join(random.choices(WORDS, k=12))
            file.write(json.dumps({"id": str(number), "title": f"Passage {number}", "text": text}) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=["flat", "ivf_sq8", "hnsw"])
    parser.add_argument("--passages", action="append", type=int)
    parser.add_argument("--block", type=int, default=10_000)
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for kind in chosen.kind or ["flat", "ivf_sq8", "hnsw"]:
            alone = peak_of(write_corpus(work / "small.jsonl", SMALL), work / f"{kind}-small", "flat", SMALL)
            for passages in chosen.passages or [20_000, 40_000]:
                out = work / f"{kind}-{passages}"
                peak = peak_of(write_corpus(work / "corpus.jsonl", passages), out, kind, chosen.block)
                rows.append(row_of(kind, passages, chosen.block, peak, alone, json.loads((out / "manifest.json").read_text())))
    headings = (
        f"kind | passages | block | peak, MB | above a flat build of {SMALL} passages, MB | of that private, MB | "
        "one block, MB | trained index, MB | ratio (target 1.5) | ratio, private memory alone"
    )
    write_report("build_memory", "Peak memory of a build", markdown(headings, rows), [asdict(row) for row in rows])


def row_of(kind: str, passages: int, block: int, peak: Peak, alone: Peak, manifest: dict[str, Any]) -> Row:
    block_mb = block * manifest["dimension"] * 4 / 1e6
    index_mb = sum(each["bytes"] for each in manifest["files"] if each["name"] == "index.faiss") / 1e6
    above, private = peak.resident - alone.resident, peak.private - alone.private
    allowed = block_mb + index_mb
    return Row(
        kind,
        passages,
        block,
        round(peak.resident),
        round(above, 1),
        round(private, 1),
        round(block_mb, 1),
        round(index_mb, 1),
        round(above / allowed, 2),
        round(private / allowed, 2),
    )


if __name__ == "__main__":
    main()
