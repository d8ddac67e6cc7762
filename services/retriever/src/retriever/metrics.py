"""The retriever's Prometheus metrics."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from servicekit.metrics import SECONDS_BUCKETS

_STAGE_BUCKETS = (0.0002, 0.0005, *SECONDS_BUCKETS)

QUEUE_SECONDS = Histogram(
    "parallelsearch_retriever_queue_seconds", "Seconds a query waits before its batch starts", buckets=_STAGE_BUCKETS
)
ENCODE_SECONDS = Histogram("parallelsearch_retriever_encode_seconds", "Seconds to encode a batch", buckets=_STAGE_BUCKETS)
SEARCH_SECONDS = Histogram("parallelsearch_retriever_search_seconds", "Seconds to search a batch", buckets=_STAGE_BUCKETS)
LOAD_SECONDS = Histogram("parallelsearch_retriever_load_seconds", "Seconds to read the passages of a batch", buckets=_STAGE_BUCKETS)
BATCH_SIZE = Histogram(
    "parallelsearch_retriever_batch_size", "Distinct queries in a batch", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
)
QUEUE_DEPTH = Gauge("parallelsearch_retriever_queue_depth", "Distinct queries that wait for a batch")
OVERLOADED = Counter("parallelsearch_retriever_overloaded_total", "Requests answered 503 because the queue was full")
CACHED_QUERIES = Counter("parallelsearch_retriever_query_vectors_total", "Query vectors, by where they came from", ["source"])
INDEX_PASSAGES = Gauge("parallelsearch_retriever_index_passages", "Passages of the indexes that are served")
