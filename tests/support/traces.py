"""Reads exported spans: which service made them, and what hangs below what."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: str
    end: str


def read_spans(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Span(
            row["resource"]["attributes"]["service.name"].removeprefix("parallelsearch-"),
            row["name"],
            row["context"]["trace_id"],
            row["context"]["span_id"],
            row["parent_id"] or "",
            row["start_time"],
            row["end_time"],
        )
        for row in rows
    ]


def ways(spans, root):
    """For each span of the root's trace its way down from the root, as `service: name` lines."""
    by_id = {span.id: span for span in spans if span.trace == root.trace}

    def way(span):
        above = by_id.get(span.parent)
        return (*(way(above) if above else ()), f"{span.service}: {span.name}")

    return [way(span) for span in by_id.values()]


def assert_one_trace_holds_all(spans, *, sub_queries, llm_calls):
    """One answer's trace: two generations and one batch, each seen from both sides, and the sub-queries side by side."""
    root = next(span for span in spans if span.name == "POST /v1/answers")
    found = ways(spans, root)
    top, turn = "gateway: POST /v1/answers", "gateway: turn"
    call = (top, turn, "gateway: policy POST /v1/completions", "policy: POST /v1/completions")
    batch = (top, turn, "gateway: search", "gateway: retriever POST /v1/retrieve", "retriever: POST /v1/retrieve")
    fan_out = (top, turn, "gateway: search", "gateway: sub_query")
    assert (found.count(call), found.count(batch), found.count(fan_out)) == (llm_calls, 1, sub_queries)
    side_by_side = [span for span in spans if span.trace == root.trace and span.name == "sub_query"]
    assert max(span.start for span in side_by_side) < min(span.end for span in side_by_side)
