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
    """All spans of a file of lines; a line that is still being written is left for the next look."""
    rows = [json.loads(line) for line in path.read_text().rpartition("\n")[0].splitlines()]
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


def whole_traces(spans):
    """Spans of the answers of which everything has arrived: each service exports on its own, every few seconds.

    A service exports a span when it ends, so behind an answer's own span stand all of the gateway's; for each of its
    calls to another service the span of that service must have come too.
    """
    above = {(span.trace, span.parent) for span in spans}
    one_sided = {span.trace for span in spans if _is_a_call(span) and (span.trace, span.id) not in above}
    whole = {span.trace for span in spans if span.name == "POST /v1/answers"} - one_sided
    return [span for span in spans if span.trace in whole]


def _is_a_call(span):
    return span.service == "gateway" and span.name.startswith(("policy ", "retriever "))


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
