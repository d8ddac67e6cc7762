"""What the policy service counts beside vLLM's own metrics."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import Counter, Gauge, Histogram

from servicekit.metrics import SECONDS_BUCKETS


class Outcome(StrEnum):
    """How a change of weights ended: refused before the engine saw it, failed and rolled back, or loaded."""

    LOADED = "loaded"
    REFUSED = "refused"
    FAILED = "failed"


VERSION = Gauge("parallelsearch_policy_version", "Version of the weights that are served", ["model"])
CHANGES = Counter("parallelsearch_policy_weight_changes_total", "Changes of weights by outcome", ["outcome"])
for outcome in Outcome:  # there from the start, so that the first one is seen to come
    CHANGES.labels(outcome)
PAUSE_SECONDS = Histogram(
    "parallelsearch_policy_weight_pause_seconds", "Seconds without generation while weights change", buckets=SECONDS_BUCKETS
)
STALLED = Gauge("parallelsearch_policy_stalled", "1 while the engine makes no progress")
