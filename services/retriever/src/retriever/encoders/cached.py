"""Keeps the vectors of the queries asked last, so that a question asked again is not encoded again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from retriever import metrics
from retriever.encoders.identity import Encoder, Vectors


class QueryVectors:
    """At most `size` vectors, the least recently used dropped first. Belongs to the owner's thread, as its encoder does."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self._encoder, self._size = encoder, size
        self._kept: OrderedDict[str, Vectors] = OrderedDict()

    def of(self, queries: Sequence[str]) -> Vectors:
        """Vectors of distinct queries, shape (queries, dimension)."""
        missing = [query for query in queries if query not in self._kept]
        metrics.CACHED_QUERIES.labels("encoder").inc(len(missing))
        metrics.CACHED_QUERIES.labels("cache").inc(len(queries) - len(missing))
        encoded = self._encoder.encode_queries(missing)
        if len(missing) == len(queries):
            self._keep(missing, encoded)
            return encoded
        fresh = dict(zip(missing, encoded, strict=True))
        vectors = np.stack([fresh[query] if query in fresh else self._kept[query] for query in queries])
        for query in queries:
            if query not in fresh:
                self._kept.move_to_end(query)
        self._keep(missing, encoded)
        return vectors

    def _keep(self, queries: Sequence[str], vectors: Vectors) -> None:
        if not self._size:
            return
        for query, vector in zip(queries, vectors, strict=True):
            self._kept[query] = vector.copy()  # a view would keep its whole batch alive
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
