"""The dashboard Retriever: the stages of a batch, and its load."""

from __future__ import annotations

from panels import Dashboard, Panel, Query, Row, Unit, quantiles, rate, seconds

RETRIEVER = Dashboard(
    "parallelsearch-retriever",
    "Retriever",
    (
        Row(
            "Stages",
            (
                seconds("Seconds in the queue", "parallelsearch_retriever_queue_seconds", "Before a query's batch starts."),
                seconds("Seconds to encode", "parallelsearch_retriever_encode_seconds", "Of a batch."),
                seconds("Seconds to search", "parallelsearch_retriever_search_seconds", "Of a batch."),
                seconds("Seconds to read passages", "parallelsearch_retriever_load_seconds", "Of a batch."),
            ),
        ),
        Row(
            "Load",
            (
                Panel("Batch size", "Distinct queries in a batch.", Unit.COUNT, quantiles("parallelsearch_retriever_batch_size")),
                Panel(
                    "Queue depth",
                    "Distinct queries that wait for a batch.",
                    Unit.COUNT,
                    (Query("sum by (instance) (parallelsearch_retriever_queue_depth)", "{{instance}}"),),
                ),
                Panel(
                    "Requests",
                    "By status.",
                    Unit.REQUESTS_PER_SECOND,
                    (
                        Query(
                            rate('parallelsearch_http_requests_total{job="retriever", path=~".*retrieve"}', "path, status"),
                            "{{path}} {{status}}",
                        ),
                    ),
                ),
                Panel(
                    "Overloaded",
                    "Requests answered 503 because the queue was full.",
                    Unit.REQUESTS_PER_SECOND,
                    (Query(rate("parallelsearch_retriever_overloaded_total", "instance"), "{{instance}}"),),
                ),
                Panel(
                    "Query vectors",
                    "By where they came from.",
                    Unit.PER_SECOND,
                    (Query(rate("parallelsearch_retriever_query_vectors_total", "source"), "{{source}}"),),
                    stacked=True,
                ),
                Panel(
                    "Passages",
                    "Of the index that is served.",
                    Unit.COUNT,
                    (Query("max by (instance) (parallelsearch_retriever_index_passages)", "{{instance}}"),),
                ),
            ),
        ),
    ),
)
