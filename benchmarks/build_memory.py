"""Peak memory of a build against one block of vectors plus the trained index, by number of passages.

    python benchmarks/build_memory.py [--kind flat --kind ivf_sq8] [--passages 20000 --passages 40000] [--block 10000]

The corpus is generated. What a build of a few hundred passages takes, which is Python, torch, the encoder and its working memory,
is measured apart and taken off: the rest is what grows with block and corpus. Target: at most 1.5 × (one block of float32 vectors +
the trained index).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import markdown, write_report

SMALL = 512
WORDS = ("amber", "bridge", "candle", "delta", "ember", "forest", "garden", "harbor", "island", "jungle", "kernel", "lantern")


@dataclass(frozen=True)
class Row:
    kind: str
    passages: int
    block: int
    peak_mb: float
    above_small_mb: float
    block_mb: float
    index_mb: float
    of_target: float
    """Above the small build, over block plus index."""


def peak_mb(corpus: Path, out: Path, kind: str, block: int) -> float:
    """The most memory that the building process held, as the kernel counted it."""
    command = [sys.executable, "-m", "retriever", "index", "build", str(corpus), "--out", str(out), "--encoder", "minilm"]
    process = subprocess.Popen(
        [*command, "--kind", kind, "--block-passages", str(block)],
        stderr=subprocess.DEVNULL,
        env=os.environ | {"MALLOC_ARENA_MAX": "2"},
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the build ended with status {status}: {' '.join(command)}")
    return used.ru_maxrss / 1e3


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
        for kind in chosen.kind or ["flat", "ivf_sq8"]:
            alone = peak_mb(write_corpus(work / "small.jsonl", SMALL), work / f"{kind}-small", "flat", SMALL)
            for passages in chosen.passages or [20_000, 40_000]:
                out = work / f"{kind}-{passages}"
                peak = peak_mb(write_corpus(work / "corpus.jsonl", passages), out, kind, chosen.block)
                manifest = json.loads((out / "manifest.json").read_text())
                block_mb = chosen.block * manifest["dimension"] * 4 / 1e6
                index_mb = sum(each["bytes"] for each in manifest["files"] if each["name"] == "index.faiss") / 1e6
                above = peak - alone
                ratio = above / (block_mb + index_mb)
                rows.append(
                    Row(
                        kind,
                        passages,
                        chosen.block,
                        round(peak),
                        round(above, 1),
                        round(block_mb, 1),
                        round(index_mb, 1),
                        round(ratio, 2),
                    )
                )
    headings = (
        f"kind | passages | block | peak, MB | above a build of {SMALL} passages, MB | "
        "one block, MB | trained index, MB | ratio (target 1.5)"
    )
    write_report("build_memory", "Peak memory of a build", markdown(headings, rows), [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
