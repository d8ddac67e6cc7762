"""Runs an encoder of sentence-transformers: its own tokenizer and pooling; prefixes come from the rules.

A BERT with plain pooling, which most encoders are, runs packed; others run as sentence-transformers runs them.
"""

from __future__ import annotations

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from parallelsearch.errors import ConfigurationError
from retriever.encoders.batched import BatchedEncoder, Tokens
from retriever.encoders.damage import DAMAGED, why
from retriever.encoders.identity import EncoderIdentity, Precision
from retriever.encoders.packed import PackedBert

_PLAIN_MODULES = ["Transformer", "Pooling", "Normalize"]


class SentenceEncoder(BatchedEncoder):
    def __init__(self, identity: EncoderIdentity, folder: Path, precision: Precision = "float32", device: str = "cpu") -> None:
        """Raises ConfigurationError where the folder cannot be loaded, or gives other vectors than `identity` says."""
        super().__init__(identity, precision, device)
        model = _loaded(folder).eval()
        width = model.get_embedding_dimension()
        if width not in (None, identity.dimension):
            raise ConfigurationError(f"The encoder {identity} gives vectors of {width} dimensions, which its files do not say.")
        self._tokenizer = model.tokenizer
        names = [type(module).__name__ for module in model]
        bert, pooling = model[0].model, identity.rules.pooling
        self._packed: PackedBert | None = None
        if names == _PLAIN_MODULES[: len(names)] and PackedBert.fits(bert, pooling):
            self._words = bert.embeddings.word_embeddings.weight.detach().float().to(self.device)
            self._packed = PackedBert(bert, self.dtype, self.device, "cls" if pooling == "cls" else "mean")
        else:
            self._model = model.to(self.device)
            if self.dtype != torch.float32:  # kept in the type they are used in, so that no call converts them
                for module in self._model.modules():
                    if isinstance(module, torch.nn.Linear):
                        module.to(self.dtype)

    def _tokens(self, texts: list[str]) -> Tokens:
        cut = {"truncation": True, "max_length": self.identity.rules.max_tokens}
        return dict(self._tokenizer(texts, padding=False, **cut))

    def _pooled(self, tokens: Tokens) -> torch.Tensor:
        if self._packed is not None:
            ids = torch.tensor([each for text in tokens["input_ids"] for each in text])
            return self._packed(self._words.index_select(0, ids.to(self.device)), [len(text) for text in tokens["input_ids"]])
        padded = self._tokenizer.pad(tokens, return_tensors="pt").to(self.device)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            pooled: torch.Tensor = self._model(dict(padded) | {"modality": "text"})["sentence_embedding"]
        return pooled


def _loaded(folder: Path) -> SentenceTransformer:
    try:
        return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except DAMAGED as error:
        raise ConfigurationError(f"{folder} cannot be loaded as an encoder ({why(error)}).") from error
