"""Runs an encoder through sentence-transformers, in batches of texts of like length.

The model's own pooling and normalising modules run; prefixes come from the rules of the index. Texts are tokenised
together, sorted by length and cut into batches by tokens, so that little of the work is padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from retriever.encoders.identity import EncoderIdentity, Vectors

TOKENS_PER_BATCH = 8_192


class SentenceEncoder:
    """An `Encoder` over a sentence-transformers model on CPU."""

    def __init__(self, identity: EncoderIdentity, folder: Path) -> None:
        self.identity = identity
        self._model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        self._model.eval()

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self.identity.rules.query_prefix, texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self.identity.rules.passage_prefix, texts)

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        if not texts:
            return vectors
        tokens = self._model.tokenizer(
            [prefix + text for text in texts], truncation=True, max_length=self.identity.rules.max_tokens, padding=False
        )
        with torch.inference_mode():
            for rows in by_length([len(ids) for ids in tokens["input_ids"]], TOKENS_PER_BATCH):
                padded = self._model.tokenizer.pad(
                    {name: [values[row] for row in rows] for name, values in tokens.items()}, return_tensors="pt"
                )
                pooled = self._model(dict(padded) | {"modality": "text"})["sentence_embedding"].float()
                if self.identity.rules.normalised:
                    pooled = torch.nn.functional.normalize(pooled, dim=1)
                vectors[rows] = pooled.numpy()
        return vectors


def by_length(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Rows in batches, longest first; a batch times its longest row is at most `tokens_per_batch`, and never empty."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens_per_batch:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
