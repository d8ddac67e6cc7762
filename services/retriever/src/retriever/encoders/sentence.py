"""Runs an encoder through sentence-transformers, in batches of texts of like length.

The model's own pooling and normalising modules run; prefixes come from the rules of the index. Texts are tokenised
together, sorted by length and cut into batches by tokens, so that little of the work is padding: among real questions, one
batch of 64 padded to its longest would be three quarters padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from retriever.encoders.identity import EncoderIdentity, Precision, Vectors

TOKENS_PER_BATCH = 8_192
PADDING_PER_BATCH = 128
"""Tokens of padding that cost about as much as one more pass through the model."""


class SentenceEncoder:
    """An `Encoder` over a sentence-transformers model on CPU.

    In bfloat16 the matrix products run in that type, and normalisations, sums and the result in float32: half the time on a
    processor that has the instructions, at a cosine of 0.9999 to the float32 vectors.
    """

    def __init__(self, identity: EncoderIdentity, folder: Path, precision: Precision = "float32") -> None:
        self.identity = identity
        self._model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        self._model.eval()
        self._half = precision == "bfloat16" or (precision == "auto" and has_bfloat16())
        if self._half:
            for module in self._model.modules():
                if isinstance(module, torch.nn.Linear):
                    module.to(torch.bfloat16)

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
        with torch.inference_mode(), self._precision():
            for rows in by_length([len(ids) for ids in tokens["input_ids"]], TOKENS_PER_BATCH, PADDING_PER_BATCH):
                vectors[rows] = self._forward({name: [values[row] for row in rows] for name, values in tokens.items()})
        return vectors

    def _forward(self, tokens: dict[str, list[Any]]) -> Vectors:
        padded = self._model.tokenizer.pad(tokens, return_tensors="pt")
        pooled = self._model(dict(padded) | {"modality": "text"})["sentence_embedding"].float()
        if self.identity.rules.normalised:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        vectors: Vectors = pooled.numpy()
        return vectors

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast("cpu", dtype=torch.bfloat16) if self._half else nullcontext()


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 natively; where it does not, bfloat16 is slower than float32."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def by_length(lengths: Sequence[int], tokens_per_batch: int, padding_per_batch: int) -> Iterator[list[int]]:
    """Rows in batches, longest first. A batch of more than one row holds at most `tokens_per_batch` tokens, of which at most
    `padding_per_batch` are padding."""
    batch: list[int] = []
    padding = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        longest = lengths[batch[0]] if batch else lengths[row]
        padding += longest - lengths[row]
        if batch and ((len(batch) + 1) * longest > tokens_per_batch or padding > padding_per_batch):
            yield batch
            batch, padding = [], 0
        batch.append(row)
    if batch:
        yield batch
