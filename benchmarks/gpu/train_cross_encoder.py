"""Trains a small cross-encoder for `rerank` out of the bundled MiniLM, on `train` questions only.

    python benchmarks/gpu/train_cross_encoder.py --data FOLDER --out FOLDER [--epochs 6] [--device cuda]

Each example is a question with one of its supporting passages and, as wrong ones, the passages that BM25 finds for it in the
whole corpus besides; the loss is the softmax over the group. OUT is a folder of sentence-transformers that RETRIEVER_RERANKER
names, in half precision. Groups and their order are drawn with a fixed seed. Two and a half minutes on an H200 that others use too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # bm25s imports JAX where it is, which would take most of a GPU
import bm25s
import torch
from sentence_transformers import CrossEncoder
from torch.nn.functional import cross_entropy

from retriever.corpus.reading import read_corpus
from retriever.encoders.resolve import resolve

DATA_SETS = ("hotpotqa", "2wikimultihopqa", "musique")
WRONG, FOUND_BY_BM25, GROUPS_AT_ONCE, LONGEST = 7, 30, 16, 192
RATE, WARM_UP, SEED = 1e-4, 0.1, 7


@dataclass(frozen=True)
class Example:
    question: str
    right: str
    wrong: tuple[str, ...]
    """What BM25 found besides, the best first; each epoch draws its own `WRONG` of them."""


def examples_of(data: Path, data_set: str) -> list[Example]:
    lines = (data / f"{data_set}.jsonl").read_text().splitlines()
    questions = [row for row in map(json.loads, lines) if row["split"] == "train" and row.get("supporting_titles")]
    passages = [passage for _, passage in read_corpus([data / f"{data_set}_corpus.jsonl.gz"])]
    texts = [f"{passage.title} {passage.text}".strip() for passage in passages]
    by_title = defaultdict(list)
    for row, passage in enumerate(passages):
        by_title[passage.title].append(row)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    asked = bm25s.tokenize([row["question"] for row in questions], stopwords="en", show_progress=False)
    found, _ = index.retrieve(asked, k=FOUND_BY_BM25, show_progress=False)
    examples = []
    for row, ranked in zip(questions, found.tolist(), strict=True):
        supporting = {place for title in row["supporting_titles"] for place in by_title[title]}
        wrong = tuple(texts[place] for place in ranked if place not in supporting)
        examples += [Example(row["question"], texts[place], wrong) for place in sorted(supporting)]
    return examples


def train(model: CrossEncoder, examples: list[Example], epochs: int) -> None:
    dealer = random.Random(SEED)
    order = [example for _ in range(epochs) for example in dealer.sample(examples, len(examples))]
    batches = [order[at : at + GROUPS_AT_ONCE] for at in range(0, len(order), GROUPS_AT_ONCE)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    warm = max(1, int(WARM_UP * len(batches)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (len(batches) - step) / (len(batches) - warm)))
    )
    model.train()
    started, recent = time.perf_counter(), []
    for step, batch in enumerate(batches, start=1):
        pairs = [(example.question, text) for example in batch for text in (example.right, *dealer.sample(example.wrong, WRONG))]
        tokens = model.tokenizer(
            *map(list, zip(*pairs, strict=True)), padding=True, truncation="longest_first", max_length=LONGEST, return_tensors="pt"
        )
        with torch.autocast(model.device.type, torch.bfloat16):
            scores = model.model(**tokens.to(model.device)).logits.view(len(batch), 1 + WRONG)
        loss = cross_entropy(scores.float(), torch.zeros(len(batch), dtype=torch.long, device=scores.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        recent = [*recent[-49:], loss.detach()]
        if step % 50 == 0 or step == len(batches):
            left = (time.perf_counter() - started) / step * (len(batches) - step)
            print(f"step {step} of {len(batches)}: loss {float(sum(recent)) / len(recent):.3f}, {left:.0f} s left", flush=True)
    model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    torch.manual_seed(SEED)
    examples = [example for data_set in DATA_SETS for example in examples_of(chosen.data, data_set)]
    print(f"{len(examples)} supporting passages of train questions, {WRONG} others beside each", flush=True)
    model = CrossEncoder(str(resolve("minilm").path), num_labels=1, device=chosen.device, local_files_only=True)
    train(model, examples, chosen.epochs)
    model.model.half()
    model.save_pretrained(str(chosen.out))


if __name__ == "__main__":
    main()
