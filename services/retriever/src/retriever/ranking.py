"""What decides rows and scores beside the index, as one short name, which caches of rows carry."""

from __future__ import annotations

import hashlib

import orjson

from retriever.reranking import Reranker
from retriever.settings import RetrieverSettings

WHAT_COUNTS = {"method", "precision", "encoder_device", "search", "gpu_devices", "eight_bit_candidates", "web_provider", "web_url"}
"""Of the settings. The encoder is the index's own, or the service does not start."""


def ranking_of(settings: RetrieverSettings, reranker: Reranker | None) -> str:
    """Changes with the default method, how exactly is searched, and the cross-encoder and its number of candidates."""
    scored_again = [reranker.digest, reranker.candidates] if reranker is not None else None
    decides = [settings.model_dump(mode="json", include=WHAT_COUNTS), scored_again]
    return hashlib.sha256(orjson.dumps(decides, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
