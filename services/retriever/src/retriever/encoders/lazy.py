"""The encoder of a build: that of a retriever which has it loaded, else one that is loaded here when it is first needed."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from typing import Literal

import numpy as np

from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from parallelsearch.errors import ParallelSearchError
from retriever.encoders.identity import Encoder, EncoderIdentity, Precision, Vectors
from retriever.encoders.load import load
from retriever.encoders.resolve import ResolvedEncoder
from retriever.index.progress import Progress, say

SETTLED: tuple[Precision, ...] = ("bfloat16", "float32")
"""What `auto` comes to."""


def settled_precision(resolved: ResolvedEncoder, running: RetrieverAdminClient | None = None) -> Precision:
    """What `auto` comes to here: the precision of a retriever that has the encoder loaded, else what this processor multiplies
    natively."""
    there = (each for each in SETTLED if running is not None and _is_loaded(running, resolved.identity.key, each))
    if (precision := next(there, None)) is not None:
        return precision
    from retriever.encoders.batched import has_bfloat16  # takes seconds to import, and who encodes elsewhere need not wait

    return "bfloat16" if has_bfloat16() else "float32"


def _is_loaded(running: RetrieverAdminClient, key: str, precision: Precision) -> bool:
    try:
        running.encode(key, precision, "queries", [])
    except ParallelSearchError:
        return False
    return True


class LazyEncoder:
    """Implements `Encoder`. Both give the same bytes: the retriever refuses to encode in another precision or on another device."""

    def __init__(self, resolved: ResolvedEncoder, precision: Precision, running: RetrieverAdminClient | None = None) -> None:
        self._resolved, self._precision, self._running = resolved, precision, running
        self._loaded: Encoder | None = None
        self._said = False

    @property
    def identity(self) -> EncoderIdentity:
        return self._resolved.identity

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        there = self._encoded_there("queries", texts)
        return self._load().encode_queries(texts) if there is None else there

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        there = self._encoded_there("passages", texts)
        return self._load().encode_passages(texts) if there is None else there

    def unload(self) -> None:
        """Gives the memory of the encoder back to the system, if it was loaded here."""
        if self._loaded is None:
            return
        self._loaded = None
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc, which keeps most of what is freed
        if trim is not None:
            trim(0)

    def _encoded_there(self, what: Literal["passages", "queries"], texts: Sequence[str]) -> Vectors | None:
        """None where nobody else encodes; from the first refusal on nobody is asked again."""
        if self._running is None or self._loaded is not None:
            return None
        try:
            raw = self._running.encode(self.identity.key, self._precision, what, texts)
        except ParallelSearchError as error:
            say(f"encoding here, and not at {self._running.url}: {error.detail}")
            self._running = None
            return None
        if not self._said:
            say(f"encoded by the retriever at {self._running.url}, which has {self.identity.name} loaded")
            self._said = True
        return np.frombuffer(raw, dtype="<f4").reshape(len(texts), self.identity.dimension).astype(np.float32, copy=False)

    def _load(self) -> Encoder:
        if self._loaded is None:
            with Progress(f"loading the encoder {self.identity.name}"):
                self._loaded = load(self._resolved, self._precision)
        return self._loaded
