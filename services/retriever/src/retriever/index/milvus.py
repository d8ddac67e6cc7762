"""Vectors kept in Milvus, for a corpus that outgrows one machine's memory. Only this file knows pymilvus.

The corpus, the manifest and the encoder stay with the retriever; a collection named after the version of the index holds one
vector per row. It is filled before the manifest is published and never changed after.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from parallelsearch.errors import IndexMismatch, UpstreamUnavailable
from retriever.encoders.identity import Vectors
from retriever.index.blocks import Blocks
from retriever.index.found import Found, in_order, nothing_found
from retriever.index.manifest import MilvusAddress
from retriever.index.progress import Progress

# pymilvus reads this variable when it is imported, and ends in an error where it names the file of the embedded edition.
_uri = os.environ.pop("MILVUS_URI", None)
from grpc import RpcError  # noqa: E402
from pymilvus import DataType, MilvusClient  # noqa: E402
from pymilvus.exceptions import MilvusException  # noqa: E402

if _uri is not None:
    os.environ["MILVUS_URI"] = _uri

TIMEOUT_S, LOAD_TIMEOUT_S = 30.0, 600.0
"""For one answer of Milvus; and for what takes it longer the more vectors there are."""
MOST_EQUAL = 1_024
"""Rows asked for where the last place is tied, at most; it does not grow with top_k, so that even of more equal ones a query for
few and one for many passages find the same."""
_WIDER = 8


def collection_of(version: str) -> str:
    return f"parallelsearch_{version}"


def fill(address: MilvusAddress, version: str, blocks: Blocks, dimension: int) -> None:
    """Writes every vector into the collection of `version`; one that a killed build left is written afresh.

    Raises:
        UpstreamUnavailable: Milvus cannot be reached or refuses.
    """
    name = collection_of(version)
    with _client(address) as client, Progress(f"filling the Milvus collection {name}", blocks.rows) as progress:
        if client.has_collection(name, timeout=TIMEOUT_S):
            client.drop_collection(name, timeout=TIMEOUT_S)
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        index = client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="IP")
        client.create_collection(name, schema=schema, index_params=index, timeout=TIMEOUT_S)
        for first, part in blocks:
            rows = [{"row": first + place, "vector": vector} for place, vector in enumerate(part)]
            client.insert(name, rows, timeout=TIMEOUT_S)
            progress.advance(len(part))
        client.flush(name, timeout=LOAD_TIMEOUT_S)


def holds(address: MilvusAddress, version: str, rows: int) -> bool:
    """Whether the collection of a version is there, with so many vectors."""
    name = collection_of(version)
    with _client(address) as client:
        if not client.has_collection(name, timeout=TIMEOUT_S):
            return False
        return int(client.get_collection_stats(name, timeout=TIMEOUT_S)["row_count"]) == rows


def drop(address: MilvusAddress, version: str) -> None:
    with _client(address) as client:
        if client.has_collection(collection_of(version), timeout=TIMEOUT_S):
            client.drop_collection(collection_of(version), timeout=TIMEOUT_S)


class MilvusSearch:
    """Search over the collection of one version, by its one owner."""

    def __init__(self, address: MilvusAddress, version: str, timeout_s: float = TIMEOUT_S) -> None:
        """Opens and loads the collection.

        Raises:
            IndexMismatch: Milvus has no such collection.
            UpstreamUnavailable: Milvus cannot be reached.
        """
        self._name, self._address, self._timeout_s = collection_of(version), address, timeout_s
        with _translated(address):
            self._client = MilvusClient(address.uri, token=address.token, timeout=timeout_s)
            if not self._client.has_collection(self._name, timeout=timeout_s):
                again = "Build the index again with this MILVUS_URI: parallelsearch index build CORPUS --kind milvus"
                raise IndexMismatch(f"Milvus at {address.uri} has no collection {self._name}, which the manifest names. {again}")
            self._client.load_collection(self._name, timeout=LOAD_TIMEOUT_S)
            self.rows = int(self._client.get_collection_stats(self._name, timeout=timeout_s)["row_count"])
            fields = self._client.describe_collection(self._name, timeout=timeout_s)["fields"]
        self.dimension = next(int(each["params"]["dim"]) for each in fields if each["name"] == "vector")

    def search(self, queries: Vectors, top_k: int) -> Found:
        """Of ties the smaller rows: Milvus takes any for the last place, so those queries whose last place is tied are asked again
        for more, until it is not, or `MOST_EQUAL` are not enough."""
        scores, rows = nothing_found(len(queries), top_k)
        left, limit, most = np.arange(len(queries)), top_k + 1, max(top_k + 1, MOST_EQUAL)
        while len(left):
            found_scores, found_rows = in_order(*self._ask(queries[left], limit), limit)
            scores[left], rows[left] = found_scores[:, :top_k], found_rows[:, :top_k]
            tied = (found_rows[:, -1] >= 0) & (found_scores[:, -1] == found_scores[:, top_k - 1])
            left = left[tied] if limit < most else left[:0]
            limit = min(limit * _WIDER, most)
        return scores, rows

    def _ask(self, queries: Vectors, limit: int) -> Found:
        scores, rows = nothing_found(len(queries), limit)
        with _translated(self._address):
            answers = self._client.search(
                self._name, data=list(queries), limit=limit, output_fields=["row"], timeout=self._timeout_s
            )
        for query, hits in enumerate(answers):
            rows[query, : len(hits)] = [hit["row"] for hit in hits]
            scores[query, : len(hits)] = [hit["distance"] for hit in hits]
        return scores, rows

    def close(self) -> None:
        self._client.close()


@contextmanager
def _client(address: MilvusAddress) -> Iterator[MilvusClient]:
    with _translated(address):
        client = MilvusClient(address.uri, token=address.token, timeout=TIMEOUT_S)
        try:
            yield client
        finally:
            client.close()


@contextmanager
def _translated(address: MilvusAddress) -> Iterator[None]:
    try:
        yield
    except (MilvusException, RpcError) as error:  # the latter where an answer does not come in time
        why = error.message if isinstance(error, MilvusException) else error.details()
        raise UpstreamUnavailable(f"Milvus at {address.uri} does not answer as it should ({why}).", retry_after_s=5) from error
