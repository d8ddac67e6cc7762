"""Queries a second of an encoder of the shape of E5-base on one card, in half precision, padded by length. Random weights.

    python benchmarks/gpu/encoder.py --out FOLDER

Also the path of a batch behind it: encode, then search 21,015,324 × 768 vectors exactly, through the retriever's interface.
Lengths of the queries are drawn once, 8 to 40 tokens, 14 on the median; a batch is sorted by length and cut, at 64 queries and
more, where padding would exceed an eighth.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from card import describe_card, make_vectors, wall_ms
from transformers import BertConfig, BertModel

from retriever.gpu.fused_shard import FusedShard
from retriever.gpu.sharded import ShardedSearch

BATCHES = (1, 8, 64, 512)
MOST_PADDING, FEWEST_AT_ONCE = 1 / 8, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=21_015_324)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = BertModel(BertConfig(), add_pooling_layer=False).half().cuda().eval()
    search = ShardedSearch([FusedShard(make_vectors(args.rows, 768))], 768)
    results = []
    for batch in BATCHES:
        queries = draw(batch)
        encode_ms = wall_ms(lambda q=queries: encode(model, q).cpu(), runs=15)
        both_ms = wall_ms(lambda q=queries: search.search(encode(model, q).cpu().numpy(), 3), runs=9)
        results.append(
            {
                "batch": batch,
                "encode_ms": round(encode_ms, 2),
                "encoded_per_s": round(batch / encode_ms * 1e3),
                "encode_and_search_ms": round(both_ms, 2),
                "answered_per_s": round(batch / both_ms * 1e3),
            }
        )
        print(json.dumps(results[-1]), flush=True)
        report = {"card": describe_card(), "rows": args.rows, "results": results}
        (args.out / "gpu_encoder.json").write_text(json.dumps(report, indent=1) + "\n")


def draw(count: int) -> list[torch.Tensor]:
    """Token ids of `count` queries, on the host."""
    random = np.random.default_rng(count)
    lengths = np.clip(np.round(random.lognormal(np.log(14), 0.35, count)), 8, 40).astype(int)
    return [torch.from_numpy(random.integers(1_000, 30_000, length)) for length in lengths]


def encode(model: BertModel, queries: list[torch.Tensor]) -> torch.Tensor:
    """Mean-pooled unit vectors, float32 (queries, 768), in the order of the queries."""
    order = sorted(range(len(queries)), key=lambda number: len(queries[number]))
    vectors = torch.empty((len(queries), 768), device="cuda")
    for group in groups([len(queries[number]) for number in order]):
        numbers = [order[place] for place in group]
        tokens = torch.nn.utils.rnn.pad_sequence([queries[number] for number in numbers], batch_first=True)
        mask = (tokens > 0).long().cuda(non_blocking=True)
        with torch.inference_mode():
            states = model(input_ids=tokens.cuda(non_blocking=True), attention_mask=mask).last_hidden_state.float()
        pooled = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        vectors[numbers] = torch.nn.functional.normalize(pooled, dim=1)
    return vectors


def groups(lengths: list[int]) -> list[range]:
    """Cuts ascending lengths into runs of at least FEWEST_AT_ONCE, none with more padding than MOST_PADDING where that can be."""
    found, start, tokens = [], 0, 0
    for place, length in enumerate(lengths):
        padded = (place - start + 1) * length
        if place - start >= FEWEST_AT_ONCE and padded - tokens - length > MOST_PADDING * padded:
            found.append(range(start, place))
            start, tokens = place, 0
        tokens += length
    return [*found, range(start, len(lengths))]


if __name__ == "__main__":
    main()
