"""Exact search of one index spread over all cards of a host, against one card: the same rows and scores, and milliseconds a batch.

python benchmarks/gpu/several_cards.py VECTORS.npy [--make ROWS] [--engine fused] [--device cpu …]

With --make the file is made first, of as many random unit vectors of 768 dimensions, on the first card, and removed at the end.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from retriever.gpu.opening import GpuPlan, open_search

BATCHES = (1, 16, 64, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--engine", default="fused")
    parser.add_argument("--device", action="append", help="default: all cards of the host")
    parser.add_argument("--make", type=int, metavar="ROWS")
    chosen = parser.parse_args()
    if chosen.make:
        write_vectors(chosen.vectors, chosen.make)
    try:
        compare(chosen)
    finally:
        if chosen.make:
            chosen.vectors.unlink()


def write_vectors(path: Path, rows: int) -> None:
    from card import make_vectors
    from exact_search import write_file

    write_file(make_vectors(rows, 768), path)
    torch.cuda.empty_cache()


def compare(chosen: argparse.Namespace) -> None:
    devices = tuple(chosen.device or [f"cuda:{number}" for number in range(torch.cuda.device_count())])
    started = time.perf_counter()
    one = open_search(chosen.vectors, GpuPlan(chosen.engine, devices[:1]))
    middle = time.perf_counter()
    spread = open_search(chosen.vectors, GpuPlan(chosen.engine, devices))
    print(f"{spread.rows:,} rows; loaded on {devices[0]} in {middle - started:.1f} s, ", end="")
    print(f"spread over {len(devices)} in {time.perf_counter() - middle:.1f} s")
    print("| batch | one card, ms | all, ms | same rows | largest difference of scores |\n| --- | --- | --- | --- | --- |")
    for batch in BATCHES:
        queries = np.random.default_rng(batch).standard_normal((batch, spread.dimension), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        alone, together = one.search(queries, 10), spread.search(queries, 10)
        times = [median_ms(lambda search=search, asked=queries: search.search(asked, 10)) for search in (one, spread)]
        same = float((alone[1] == together[1]).mean())
        print(
            f"| {batch} | {times[0]:.2f} | {times[1]:.2f} | {same:.4f} | {np.abs(alone[0] - together[0]).max():.1e} |", flush=True
        )


def median_ms(work: object, runs: int = 9) -> float:
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        work()  # type: ignore[operator]
        took.append((time.perf_counter() - started) * 1e3)
    return sorted(took)[runs // 2]


if __name__ == "__main__":
    main()
