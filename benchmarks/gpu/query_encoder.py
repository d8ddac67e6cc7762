"""Queries a second of the retriever's own query encoder, tokenizer included, at several batch sizes.

python benchmarks/gpu/query_encoder.py ENCODER [--device cuda] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from retriever_clients import queries

from retriever.encoders.load import load
from retriever.encoders.resolve import resolve

BATCHES = (1, 8, 64, 512)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=2)
    chosen = parser.parse_args()
    encoder, rows = load(resolve(chosen.encoder), "auto", chosen.device), []
    print("| batch | encode, ms | queries/s |\n| --- | --- | --- |")
    for batch in BATCHES:
        stock = queries(seed=batch)
        took: list[float] = []
        end = time.perf_counter() + chosen.seconds
        while len(took) < 4 or time.perf_counter() < end:
            texts = [next(stock) for _ in range(batch)]
            started = time.perf_counter()
            encoder.encode_queries(texts)
            took.append(time.perf_counter() - started)
        median = sorted(took[1:])[len(took) // 2 - 1]
        rows.append({"batch": batch, "encode_ms": round(median * 1e3, 2), "per_s": round(batch / median)})
        print(f"| {batch} | {median * 1e3:.2f} | {batch / median:,.0f} |", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
