"""Scores query and passage together with a cross-encoder: the dearest way to rank, for the few that another way found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parallelsearch.errors import ConfigurationError
from retriever.corpus.store import CorpusStore
from retriever.encoders.load import refuse_missing_device
from retriever.encoders.resolve import joint_sha256
from retriever.index.found import Found, nothing_found

_PAIRS_AT_ONCE = 32


class Reranker:
    """A cross-encoder of sentence-transformers with one score per pair. Belongs to the owner's thread."""

    def __init__(self, folder: Path, candidates: int, device: str = "cpu") -> None:
        """`candidates` passages per query are scored.

        Raises:
            ConfigurationError: the folder holds no such model or a damaged one, or there is no such device.
        """
        refuse_missing_device(device)
        if not (folder / "config.json").is_file():
            raise ConfigurationError(
                f"RETRIEVER_RERANKER is {folder}, which holds no config.json. Name the folder of a cross-encoder."
            )
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from sentence_transformers import CrossEncoder

        from retriever.encoders.damage import DAMAGED, why

        self.candidates = candidates
        self.digest = joint_sha256(sorted(path for path in folder.iterdir() if path.is_file()))
        # Weights stored in half precision stay so elsewhere; on a CPU that is slow, and scores near 1 come out equal.
        kwargs = {"dtype": "float32"} if device == "cpu" else {}
        try:
            self._model = CrossEncoder(str(folder), device=device, local_files_only=True, model_kwargs=kwargs)
        except DAMAGED as error:
            raise ConfigurationError(f"RETRIEVER_RERANKER is {folder}, which cannot be loaded ({why(error)}).") from error
        labels = self._model.config.num_labels
        if labels != 1:
            raise ConfigurationError(
                f"RETRIEVER_RERANKER is {folder}, which gives {labels} scores a pair. Name one that gives one."
            )

    def rerank(self, queries: Sequence[str], rows: NDArray[np.int64], corpus: CorpusStore, top_k: int) -> Found:
        """The best `top_k` of the candidate `rows`, shape (queries, candidates), −1 for none; ties keep their order."""
        scores, best = nothing_found(len(queries), top_k)
        held = [row[row >= 0] for row in rows]
        texts = {row: f"{corpus[row].title} {corpus[row].text}".strip() for row in np.unique(np.concatenate(held)).tolist()}
        pairs = [(query, texts[row]) for query, found in zip(queries, held, strict=True) for row in found.tolist()]
        if not pairs:
            return scores, best
        scored = np.asarray(self._model.predict(pairs, batch_size=_PAIRS_AT_ONCE, show_progress_bar=False), dtype=np.float32)
        for number, (found, given) in enumerate(
            zip(held, np.split(scored, np.cumsum([len(one) for one in held])[:-1]), strict=True)
        ):
            order = np.argsort(-given, kind="stable")[:top_k]
            scores[number, : len(order)], best[number, : len(order)] = given[order], found[order]
        return scores, best
