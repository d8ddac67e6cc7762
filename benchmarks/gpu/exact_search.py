"""Exact search of 21,015,324 × 768 fp16 vectors on one card, each engine against the time to read the vectors once.

    python benchmarks/gpu/exact_search.py --out FOLDER [--engine fused --engine torch --engine eight_bit --engine faiss
        --engine faiss_plain] [--rows N] [--keep EARLIER.json] [--tiles FILE]

Vectors are made on the card. Times are wall clock through the retriever's search interface: float32 queries on the host in,
scores and rows on the host out. The reading time and all ratios are of the same run. `eight_bit` loads from a .npy file, as
the retriever does, and re-scores 32 candidates in it, then in pinned memory, there 16 too; --scratch says where that file may lie.
`faiss` is FAISS through cuVS, `faiss_plain` its own kernels; each can be run alone, in about a minute. --keep takes over what
an earlier run measured of the other engines, --tiles the fastest shapes that tiles.py found for `fused`.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from card import BLOCK_ROWS, block_of_vectors, describe_card, make_queries, make_vectors, read_once_ms, wall_ms
from report import Report

from retriever.gpu.loading import describe
from retriever.gpu.opening import GpuPlan, fastest, open_search
from retriever.gpu.sharded import ShardedSearch

BATCHES, TOP_KS = (1, 4, 16, 64, 128, 256), (3, 10, 100)
CHECKED_QUERIES = 64

Search = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def main() -> None:
    args = _arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    vectors = make_vectors(args.rows, args.dimension)
    report = Report(describe_card(), args.rows, args.dimension, round(read_once_ms(vectors), 3))
    print(report.card, report.read_fp16_ms, flush=True)
    checked = {"fused", "eight_bit"} & set(args.engine)
    truth = float32_truth(vectors, make_queries(CHECKED_QUERIES, args.dimension), max(TOP_KS)) if checked else None
    if "fused" in args.engine:
        fused(vectors, report, truth, args.tiles)
        report.write(args.out, args.name, args.keep)
    if "torch" in args.engine:
        plain_torch(vectors, report)
        report.write(args.out, args.name, args.keep)
    if "eight_bit" in args.engine:
        file = args.scratch / "exact_search_vectors.npy"
        write_file(vectors, file)
        vectors = None
        gc.collect(), torch.cuda.empty_cache()
        eight_bit(file, report, truth)
        file.unlink()
        report.write(args.out, args.name, args.keep)
    for engine, use_cuvs in (("faiss", True), ("faiss_plain", False)):
        if engine in args.engine:
            vectors = None
            gc.collect(), torch.cuda.empty_cache()
            faiss_flat(args.rows, args.dimension, use_cuvs, report)
            report.write(args.out, args.name, args.keep)


def time_all(engine: str, search: Search, report: Report, runs: int, top_ks: tuple[int, ...] = TOP_KS) -> None:
    for top_k in top_ks:
        for batch in BATCHES:
            queries = make_queries(batch, report.dimension).cpu().numpy()
            report.add(engine, batch, top_k, wall_ms(lambda q=queries, k=top_k: search(q, k), runs))


def fused(vectors: torch.Tensor, report: Report, truth: tuple[torch.Tensor, torch.Tensor], measured: Path | None) -> None:
    from tiles import fastest as fastest_tiles

    from retriever.gpu.fused_shard import FusedShard
    from retriever.gpu.kernels import TILES_FP16

    tiles = fastest_tiles(measured, TILES_FP16) if measured else TILES_FP16
    search = ShardedSearch([FusedShard(vectors, tiles)], report.dimension)
    time_all("fused", search.search, report, runs=9)
    report.note("fused_against_float32", agreement(search.search, report.dimension, truth))


def plain_torch(vectors: torch.Tensor, report: Report) -> None:
    from retriever.gpu.torch_shard import TorchShard

    search = ShardedSearch([TorchShard(vectors)], report.dimension)
    time_all("torch", search.search, report, runs=3)


def eight_bit(file: Path, report: Report, truth: tuple[torch.Tensor, torch.Tensor]) -> None:
    pinned = GpuPlan("eight_bit", candidates=32, host_rows="pinned")
    variants = {"eight_bit": replace(pinned, host_rows="mapped"), "eight_bit pinned": pinned}
    for name, plan in (variants | {"eight_bit pinned 16": replace(pinned, candidates=16)}).items():
        started = time.perf_counter()
        search = open_search(file, plan)
        report.note(f"{name}_load_s", round(time.perf_counter() - started, 1))
        report.note(f"{name}_gpu_gb", round(torch.cuda.memory_allocated() / 1e9, 2))
        time_all(name, search.search, report, runs=15)
        report.note(f"{name}_against_float32_on_random_vectors", agreement(search.search, report.dimension, truth))
        del search
        gc.collect(), torch.cuda.empty_cache()
    started = time.perf_counter()
    chosen = fastest(describe(file), torch.device("cuda", 0), GpuPlan())
    report.note("engine_measured_at_start", [chosen, f"{time.perf_counter() - started:.1f} s"])


def faiss_flat(rows: int, dimension: int, use_cuvs: bool, report: Report) -> None:
    import faiss
    import faiss.contrib.torch_utils

    resources = faiss.StandardGpuResources()
    resources.setTempMemory(1 << 30)
    config = faiss.GpuIndexFlatConfig()
    config.useFloat16, config.use_cuvs = True, use_cuvs
    index = faiss.GpuIndexFlatIP(resources, dimension, config)
    if hasattr(index, "reserve"):  # else each add moves all vectors within the card, which then must hold them twice
        index.reserve(rows)
    for number, start in enumerate(range(0, rows, BLOCK_ROWS)):
        index.add(block_of_vectors(number, min(BLOCK_ROWS, rows - start), dimension).float())
        torch.cuda.empty_cache()
    # Without cuVS a batch takes up to half a second.
    if use_cuvs:
        time_all("faiss cuVS", index.search, report, runs=3)
    else:
        time_all("faiss plain", index.search, report, runs=1, top_ks=(3,))


def float32_truth(vectors: torch.Tensor, queries: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and rows of the best by float32 products of the fp16 vectors, block by block."""
    scores, ids = [], []
    for start in range(0, len(vectors), BLOCK_ROWS):
        top = (queries @ vectors[start : start + BLOCK_ROWS].float().T).topk(top_k)
        scores.append(top.values)
        ids.append(top.indices + start)
    top = torch.cat(scores, 1).topk(top_k)
    return top.values.cpu(), torch.cat(ids, 1).gather(1, top.indices).cpu()


def agreement(search: Search, dimension: int, truth: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
    """Share of true rows that were found, at 3 and at 100, and the largest difference of scores at the same place."""
    queries = make_queries(CHECKED_QUERIES, dimension).cpu().numpy()
    found = {}
    for top_k in (3, 100):
        scores, rows = search(queries, top_k)
        hits = [len(set(a.tolist()) & set(b[:top_k].tolist())) for a, b in zip(rows, truth[1].numpy(), strict=True)]
        found[f"recall_at_{top_k}"] = round(sum(hits) / (top_k * len(rows)), 5)
        found[f"score_error_at_{top_k}"] = float(np.abs(scores - truth[0][:, :top_k].numpy()).max())
    return found


def write_file(vectors: torch.Tensor, path: Path) -> None:
    """Vectors of the card, fp16 (rows, dimension), as a .npy file."""
    header = {"descr": "<f2", "fortran_order": False, "shape": tuple(vectors.shape)}
    staging = torch.empty((BLOCK_ROWS // 4, vectors.shape[1]), dtype=torch.float16, pin_memory=True)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in vectors.split(len(staging)):
            part = staging[: len(block)]
            part.copy_(block)
            file.write(part.numpy())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="gpu_exact_search")
    parser.add_argument("--engine", action="append", choices=["fused", "torch", "eight_bit", "faiss", "faiss_plain"], required=True)
    parser.add_argument("--rows", type=int, default=21_015_324)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--keep", type=Path, help="the JSON file of an earlier run")
    parser.add_argument("--tiles", type=Path, help="what tiles.py has written")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
