"""Runs an encoder through sentence-transformers: its own tokenizer, pooling and normalising; prefixes come from the rules."""

from __future__ import annotations

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from retriever.encoders.batched import BatchedEncoder, Tokens
from retriever.encoders.identity import EncoderIdentity, Precision


class SentenceEncoder(BatchedEncoder):
    def __init__(self, identity: EncoderIdentity, folder: Path, precision: Precision = "float32") -> None:
        super().__init__(identity, precision)
        self._model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        self._prepare(self._model)

    def _tokens(self, texts: list[str]) -> Tokens:
        cut = {"truncation": True, "max_length": self.identity.rules.max_tokens}
        return dict(self._model.tokenizer(texts, padding=False, **cut))

    def _pooled(self, tokens: Tokens) -> torch.Tensor:
        padded = self._model.tokenizer.pad(tokens, return_tensors="pt")
        pooled: torch.Tensor = self._model(dict(padded) | {"modality": "text"})["sentence_embedding"]
        return pooled
