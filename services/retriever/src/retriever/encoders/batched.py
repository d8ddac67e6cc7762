"""What every torch encoder does the same way: tokenise together, run in batches of like length, pool to one row a text.

Texts are sorted by length and cut into batches by tokens, so that little of the work is padding: among real questions, one
batch of 64 padded to its longest would be three quarters padding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from retriever.encoders.identity import EncoderIdentity, Precision, Vectors

TOKENS_PER_BATCH = 8_192
PADDING_PER_BATCH = 128
"""Tokens of padding that cost about as much as one more pass through the model."""

Tokens = dict[str, list[Any]]


class BatchedEncoder(ABC):
    """An `Encoder` on CPU over whatever tokenises and pools.

    In bfloat16 the matrix products run in that type, and normalisations, sums and the result in float32: half the time on a
    processor that has the instructions, at a cosine of 0.9999 to the float32 vectors.
    """

    def __init__(self, identity: EncoderIdentity, precision: Precision) -> None:
        self.identity = identity
        self._half = precision == "bfloat16" or (precision == "auto" and has_bfloat16())

    @abstractmethod
    def _tokens(self, texts: list[str]) -> Tokens:
        """Lists of equal length per name, among them `input_ids`; cut to the rules' `max_tokens`, not padded."""

    @abstractmethod
    def _pooled(self, tokens: Tokens) -> torch.Tensor:
        """One row per text, shape (texts, dimension), for texts that are padded here."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self.identity.rules.query_prefix, texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self.identity.rules.passage_prefix, texts)

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        if not texts:
            return vectors
        tokens = self._tokens([prefix + text for text in texts])
        with torch.inference_mode(), self._precision():
            for rows in by_length([len(ids) for ids in tokens["input_ids"]], TOKENS_PER_BATCH, PADDING_PER_BATCH):
                pooled = self._pooled({name: [values[row] for row in rows] for name, values in tokens.items()}).float()
                if self.identity.rules.normalised:
                    pooled = torch.nn.functional.normalize(pooled, dim=1)
                vectors[rows] = pooled.numpy()
        return vectors

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast("cpu", dtype=torch.bfloat16) if self._half else nullcontext()

    def _prepare(self, model: torch.nn.Module) -> None:
        """Keeps the weights of matrix products in the type they are used in, so that no call converts them."""
        model.eval()
        if self._half:
            for module in model.modules():
                if isinstance(module, torch.nn.Linear):
                    module.to(torch.bfloat16)


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
