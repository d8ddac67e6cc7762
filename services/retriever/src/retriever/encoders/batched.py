"""What every torch encoder does the same way: tokenise together, run in batches of like length, pool to one row a text.

Texts are sorted by length and cut into batches by tokens, so that little of the work is padding: among real questions, one
batch of 64 padded to its longest would be three quarters padding. On a CPU the batches of a call run side by side, each on one
thread: threads that share each small operation wait for each other more than they work. They are as many as keep every thread
busy to the end, and of equal size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import torch

from retriever.encoders.identity import EncoderIdentity, Precision, Vectors

TOKENS_PER_BATCH = {"cpu": 400, "cuda": 16_384}
"""On a CPU what fits its caches; on a GPU what fills it and bounds its memory."""
LEAST_TOKENS_PER_BATCH = 48
"""Fewer are not worth a thread of their own."""
PADDING_PER_BATCH = {"cpu": 128, "cuda": 4_096}
"""Tokens of padding that cost about as much as one more pass through the model."""

Tokens = dict[str, list[Any]]


class BatchedEncoder(ABC):
    """An `Encoder` over whatever tokenises and pools.

    In a half precision the matrix products run in that type, and normalisations, sums and the result in float32: half the time
    on a processor that has the instructions, at a cosine of 0.9999 to the float32 vectors.
    """

    def __init__(self, identity: EncoderIdentity, precision: Precision, device: str = "cpu") -> None:
        self.identity = identity
        self.device = torch.device(device)
        self.dtype = dtype_of(precision, self.device)
        self._workers = _Workers() if self.device.type == "cpu" else None

    @abstractmethod
    def _tokens(self, texts: list[str]) -> Tokens:
        """Lists of equal length per name, among them `input_ids`; cut to the rules' `max_tokens`, not padded."""

    @abstractmethod
    def _pooled(self, tokens: Tokens) -> torch.Tensor:
        """One row per text, shape (texts, dimension), for texts that are laid out or padded here. Called on any thread."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self.identity.rules.query_prefix, texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self.identity.rules.passage_prefix, texts)

    def makes_same_bytes_as_cpu(self, precision: Precision) -> bool:
        return bool(self.device.type == "cpu" and self.dtype == dtype_of(precision, self.device))

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        if not texts:
            return vectors
        tokens = self._tokens([prefix + text for text in texts])
        lengths = [len(ids) for ids in tokens["input_ids"]]

        def fill(rows: list[int]) -> None:
            vectors[rows] = self._rows({name: [values[row] for row in rows] for name, values in tokens.items()})

        kind = self.device.type
        workers = self._workers.count if self._workers is not None else 1
        batches = list(by_length(lengths, batches_for(sum(lengths), TOKENS_PER_BATCH[kind], workers), PADDING_PER_BATCH[kind]))
        for _ in self._workers.map(fill, batches) if self._workers is not None else map(fill, batches):
            pass
        return vectors

    def _rows(self, tokens: Tokens) -> Vectors:
        with torch.inference_mode():
            pooled = self._pooled(tokens).float()
            if self.identity.rules.normalised:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
            rows: Vectors = pooled.cpu().numpy()
        return rows


class _Workers:
    """As many threads as torch would use for one operation, each of which runs its operations alone."""

    def __init__(self) -> None:
        self.count = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self.count, "encoder")
        started = Barrier(self.count)

        def start() -> None:
            started.wait(60)
            torch.set_num_threads(1)

        for each in [self._pool.submit(start) for _ in range(self.count)]:
            each.result()
        torch.set_num_threads(self.count)  # the number is the thread's own, and that of threads to come

    def map(self, work: Any, batches: list[list[int]]) -> Iterator[None]:
        return self._pool.map(work, batches)


def dtype_of(precision: Precision, device: torch.device) -> torch.dtype:
    """The type of matrix products; `auto` is the half precision that the device multiplies natively, if any."""
    if precision == "float32":
        return torch.float32
    if precision == "bfloat16":
        return torch.bfloat16
    if device.type == "cuda":
        return torch.float16
    return torch.bfloat16 if has_bfloat16() else torch.float32


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 natively; where it does not, bfloat16 is slower than float32."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def batches_for(tokens: int, tokens_per_batch: int, workers: int) -> int:
    """How many batches of about equal size keep every worker busy to the end, none larger than `tokens_per_batch`."""
    rounds = -(-tokens // (workers * tokens_per_batch))
    return max(1, min(workers * rounds, tokens // LEAST_TOKENS_PER_BATCH))


def by_length(lengths: Sequence[int], batches: int, padding_per_batch: int) -> Iterator[list[int]]:
    """Rows in `batches` batches of about equal numbers of tokens, longest first; in more where one would hold more than
    `padding_per_batch` tokens of padding."""
    share = max(1.0, sum(lengths) / batches)
    batch: list[int] = []
    before, padding, number = 0, 0, 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        longest = lengths[batch[0]] if batch else lengths[row]
        padding += longest - lengths[row]
        at = int((before + lengths[row] / 2) / share)  # a text belongs where its middle lies
        if batch and (at > number or padding > padding_per_batch):
            yield batch
            batch, padding = [], 0
        batch.append(row)
        before, number = before + lengths[row], at
    if batch:
        yield batch
