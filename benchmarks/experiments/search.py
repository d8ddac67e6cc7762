"""Exact search in this process: a sentence-transformers encoder and one matrix product, on GPU where there is one.

It stands in for the retriever service where a whole evaluation shares one machine: the same passages, the same text per passage
and the same encoder; the requests of concurrent rollouts are batched by one owner.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import Passage, SubQueryResult
from retriever.corpus.reading import CorpusPassage

MAX_BATCH = 512
ENCODING_BATCH = 256


@dataclass(slots=True)
class _Request:
    queries: tuple[str, ...]
    top_k: int
    arrived: float
    done: asyncio.Future[tuple[SubQueryResult, ...]]


class Encoder:
    """One encoder for all corpora; called by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = SentenceTransformer(str(folder), device=self.device, local_files_only=True)
        self._model.float()
        self.name = f"{folder.name}, {self.device}"

    def encode(self, texts: Sequence[str]) -> Any:
        """Unit rows, float32, on the device."""
        return self._model.encode(
            list(texts), batch_size=ENCODING_BATCH, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False
        )


class ExactSearch:
    """A `SearchBackend` over one corpus. `start` it in the event loop that uses it, and `close` it."""

    def __init__(self, passages: Sequence[CorpusPassage], encoder: Encoder, owner: ThreadPoolExecutor) -> None:
        self.passages = passages
        self.encoder = encoder
        self._owner = owner
        self._vectors = owner.submit(encoder.encode, [passage.contents for passage in passages]).result()
        digest = hashlib.sha256("\n".join(f"{p.id}\t{p.contents}" for p in passages).encode())
        self.fingerprint = f"exact-{digest.hexdigest()[:12]}"
        self._queue: asyncio.Queue[_Request] = asyncio.Queue(4_096)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._serve())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def search(self, queries: Sequence[str], top_k: int) -> SearchBatch:
        if not queries:
            return SearchBatch((), self.fingerprint)
        request = _Request(tuple(queries), top_k, time.perf_counter(), asyncio.get_running_loop().create_future())
        await self._queue.put(request)
        return SearchBatch(await request.done, self.fingerprint)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty() and sum(len(one.queries) for one in batch) < MAX_BATCH:
                batch.append(self._queue.get_nowait())
            rows = await loop.run_in_executor(self._owner, self._work, batch)
            for request, results in zip(batch, rows, strict=True):
                if not request.done.done():
                    request.done.set_result(results)

    def _work(self, batch: Sequence[_Request]) -> list[tuple[SubQueryResult, ...]]:
        import torch

        distinct = list(dict.fromkeys(query for request in batch for query in request.queries))
        top_k = min(max(request.top_k for request in batch), len(self.passages))
        with torch.inference_mode():
            scores, places = (self.encoder.encode(distinct) @ self._vectors.T).topk(top_k, dim=1)
        found = dict(zip(distinct, zip(scores.tolist(), places.tolist(), strict=True), strict=True))
        return [tuple(self._result(query, found[query], request) for query in request.queries) for request in batch]

    def _result(self, query: str, found: tuple[list[float], list[int]], request: _Request) -> SubQueryResult:
        pairs = list(zip(*found, strict=True))[: request.top_k]
        passages = tuple(
            Passage(passage.id, passage.title, passage.text, score)
            for score, passage in ((score, self.passages[place]) for score, place in pairs)
        )
        return SubQueryResult(query, passages, latency_ms=(time.perf_counter() - request.arrived) * 1000)
