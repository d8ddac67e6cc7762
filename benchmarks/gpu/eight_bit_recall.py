"""Recall of the 8-bit engine against exact search on real embeddings: corpora and their questions, encoded on the card.

    python benchmarks/gpu/eight_bit_recall.py --data FOLDER --model FOLDER --out FOLDER

FOLDER of data holds NAME_corpus.jsonl.gz (`contents`) and NAME.jsonl (`question`); the model is a sentence-transformers folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import torch
from card import describe_card
from sentence_transformers import SentenceTransformer

from retriever.gpu.eight_bit import to_eight_bit
from retriever.gpu.eight_bit_shard import EightBitShard
from retriever.gpu.sharded import ShardedSearch
from retriever.gpu.torch_shard import TorchShard

CANDIDATES = (8, 16, 32, 64)
TOP_K = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model = SentenceTransformer(str(args.model), device="cuda").half()
    names = sorted(path.name.removesuffix("_corpus.jsonl.gz") for path in args.data.glob("*_corpus.jsonl.gz"))
    vectors = {name: embed(model, corpus(args.data / f"{name}_corpus.jsonl.gz")) for name in names}
    queries = {name: embed(model, questions(args.data / f"{name}.jsonl")) for name in names}
    rows = [measure(name, vectors[name], queries[name]) for name in names]
    everything = np.concatenate(list(vectors.values())), np.concatenate(list(queries.values()))
    rows.append(measure("all together", *everything))
    (args.out / "gpu_eight_bit_recall.json").write_text(json.dumps({"card": describe_card(), "rows": rows}, indent=1) + "\n")


def measure(name: str, vectors: np.ndarray, queries: np.ndarray) -> dict[str, object]:
    """Recall at 3 against float32 products of the float32 vectors: of fp16 vectors searched exactly, and of 8 bits."""
    host = torch.from_numpy(vectors)
    on_card = host.cuda()
    truth = rows_of(TorchShard(on_card), queries)
    row: dict[str, object] = {"corpus": name, "passages": len(vectors), "queries": len(queries)}
    row["fp16"] = recall(rows_of(TorchShard(on_card.half()), queries), truth)
    for candidates in CANDIDATES:
        shard = EightBitShard(to_eight_bit(on_card), host, candidates)
        row[f"eight_bit_{candidates}"] = recall(rows_of(shard, queries), truth)
    print(json.dumps(row), flush=True)
    return row


def rows_of(shard: TorchShard | EightBitShard, queries: np.ndarray) -> np.ndarray:
    search = ShardedSearch([shard], queries.shape[1])
    return np.concatenate([search.search(queries[start : start + 64], TOP_K)[1] for start in range(0, len(queries), 64)])


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    hits = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist(), strict=True))
    return round(hits / truth.size, 6)


def embed(model: SentenceTransformer, texts: list[str]) -> np.ndarray:
    return model.encode(texts, batch_size=512, normalize_embeddings=True, convert_to_numpy=True).astype(np.float32)


def corpus(path: Path) -> list[str]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line)["contents"] for line in lines]


def questions(path: Path) -> list[str]:
    with path.open() as lines:
        return [json.loads(line)["question"] for line in lines]


if __name__ == "__main__":
    main()
