"""Exact search of one index spread over all cards of a host, against one card: the same rows and scores, and milliseconds a batch.

python benchmarks/gpu/several_cards.py VECTORS.npy [--make ROWS] [--engine fused] [--device cpu …] [--out FOLDER]

With --make the file is made first, of as many random unit vectors of 768 dimensions, on the first card, and removed at the end.
FOLDER gets gpu_several_cards.json and .md.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from card import describe_card, make_vectors, wall_ms
from exact_search import write_file

from retriever.gpu.opening import GpuPlan, open_search

BATCHES = (1, 16, 64, 256)
TOP_K, RUNS = 10, 15


@dataclass(frozen=True)
class Row:
    """One batch: milliseconds from queries on the host to results on the host, and how far both searches agree."""

    batch: int
    one_card_ms: float
    all_cards_ms: float
    ratio: float
    same_rows: float
    largest_difference: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--engine", default="fused")
    parser.add_argument("--device", action="append", help="default: all cards of the host")
    parser.add_argument("--make", type=int, metavar="ROWS")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.make:
        write_file(make_vectors(chosen.make, 768), chosen.vectors)
        torch.cuda.empty_cache()
    try:
        told = compare(chosen)
    finally:
        if chosen.make:
            chosen.vectors.unlink()
    print(to_markdown(told))
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "gpu_several_cards.json").write_text(json.dumps(told, indent=1) + "\n")
        (chosen.out / "gpu_several_cards.md").write_text(to_markdown(told))


def compare(chosen: argparse.Namespace) -> dict[str, object]:
    devices = tuple(chosen.device or [f"cuda:{number}" for number in range(torch.cuda.device_count())])
    started = time.perf_counter()
    one = open_search(chosen.vectors, GpuPlan(chosen.engine, devices[:1]))
    middle = time.perf_counter()
    spread = open_search(chosen.vectors, GpuPlan(chosen.engine, devices))
    loaded = {"one_card_s": round(middle - started, 1), "all_cards_s": round(time.perf_counter() - middle, 1)}
    rows = []
    for batch in BATCHES:
        queries = np.random.default_rng(batch).standard_normal((batch, spread.dimension), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        (scores, found), (spread_scores, spread_found) = one.search(queries, TOP_K), spread.search(queries, TOP_K)
        alone, together = (
            wall_ms(lambda search=search, asked=queries: search.search(asked, TOP_K), RUNS) for search in (one, spread)
        )
        same, apart = float((found == spread_found).mean()), float(np.abs(scores - spread_scores).max())
        rows.append(asdict(Row(batch, round(alone, 3), round(together, 3), round(together / alone, 3), same, apart)))
        print(json.dumps(rows[-1]), flush=True)
    about = {"engine": chosen.engine, "devices": devices, "rows_in_index": spread.rows, "dimension": spread.dimension}
    return {"card": describe_card() if torch.cuda.is_available() else None, **about, "top_k": TOP_K, "loaded": loaded, "rows": rows}


def to_markdown(told: dict[str, object]) -> str:
    card, loaded, cards = told["card"], told["loaded"], len(told["devices"])
    lines = [
        f"{cards} × {card['card']}, {card['date']}, torch {card['torch']}." if card else f"{cards} × {told['devices'][0]}.",
        "",
        f"{told['rows_in_index']:,} × {told['dimension']} vectors, engine {told['engine']}, top {told['top_k']}; loaded on one",
        f"card in {loaded['one_card_s']} s, spread over {cards} in {loaded['all_cards_s']} s. Milliseconds from queries on",
        "the host to results there, median.",
        "",
        "| batch | one card, ms | all cards, ms | ratio | same rows | largest difference of scores |",
        "|---|---|---|---|---|---|",
    ]
    for row in told["rows"]:
        times = f"{row['one_card_ms']:.2f} | {row['all_cards_ms']:.2f} | {row['ratio']:.2f}"
        lines.append(f"| {row['batch']} | {times} | {row['same_rows']:.4f} | {row['largest_difference']:.1e} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
