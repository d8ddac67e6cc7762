"""Exact search on the CPU: FAISS's flat index against one matrix product and top-k, by batch size.

    python benchmarks/flat_search.py --index DIR

Both search the same vectors in turn; figures are CPU time and wall clock per query. Both must find the same rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import faiss
import numpy as np
from serving import markdown, write_report

from retriever.index.manifest import VECTORS_FILE, read_manifest
from retriever.index.search import FlatSearch

TOP_K = 3


@dataclass(frozen=True)
class Row:
    batch: int
    faiss_cpu_ms: float
    faiss_ms: float
    ours_cpu_ms: float
    ours_ms: float
    same_rows: float


def timed(search: Callable[[], object], repeats: int, queries: int) -> tuple[float, float]:
    search()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        search()
    per_query_ms = 1000 / repeats / queries
    return round((time.process_time() - cpu) * per_query_ms, 3), round((time.perf_counter() - wall) * per_query_ms, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    chosen = parser.parse_args()
    file = chosen.index / read_manifest(chosen.index).version / VECTORS_FILE
    vectors, ours = np.load(file), FlatSearch(file)
    theirs = faiss.IndexFlatIP(vectors.shape[1])
    theirs.add(vectors)
    random = np.random.default_rng(0)
    near = vectors[random.integers(0, len(vectors), 64)]
    queries = (near + random.normal(scale=0.02, size=near.shape)).astype(np.float32)
    rows = []
    for batch in (1, 8, 32, 64):
        part = queries[:batch]
        same = float((theirs.search(part, TOP_K)[1] == ours.search(part, TOP_K)[1]).mean())
        by_faiss = timed(lambda part=part: theirs.search(part, TOP_K), 20, batch)
        rows.append(Row(batch, *by_faiss, *timed(lambda part=part: ours.search(part, TOP_K), 20, batch), same))
    table = markdown("batch | FAISS, CPU ms | FAISS, ms | ours, CPU ms | ours, ms | same rows", rows)
    title = f"Exact search of {len(vectors):,} x {vectors.shape[1]} on the CPU, per query"
    write_report("flat_search", title, table, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
