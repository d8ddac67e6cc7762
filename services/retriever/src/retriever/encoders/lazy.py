"""An encoder that is loaded when it is first asked for more than its identity: a build may not need it."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.encoders.identity import Encoder, EncoderIdentity, Precision, Vectors
from retriever.encoders.load import load
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.progress import Progress


class LazyEncoder:
    """Implements `Encoder`."""

    def __init__(self, resolved: ResolvedEncoder, precision: Precision) -> None:
        self._resolved, self._precision = resolved, precision
        self._loaded: Encoder | None = None

    @property
    def identity(self) -> EncoderIdentity:
        return self._resolved.identity

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._load().encode_queries(texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._load().encode_passages(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._load().count_tokens(texts)

    def _load(self) -> Encoder:
        if self._loaded is None:
            with Progress(f"loading the encoder {self.identity.name}"):
                self._loaded = load(self._resolved, self._precision)
        return self._loaded
