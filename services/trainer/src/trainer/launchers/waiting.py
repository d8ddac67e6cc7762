"""Why the pods of a run do not work yet, in the cluster's words: a node that there is none of, an image, a quota, a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from kubernetes.client import CoreV1Event, V1Pod

USUAL = frozenset({"ContainerCreating", "PodInitializing"})
MAX_SAID = 1_000
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def is_pending(pod: V1Pod) -> bool:
    return pod.status.phase in {None, "Pending"}


def why_waiting(pods: Sequence[V1Pod], events: Iterable[CoreV1Event]) -> str:
    """What the pods' own status says, else the last warning of the cluster; empty if nothing is wrong.

    A warning from before the last pod was made, of pods that could not be made, is over.
    """
    if said := next(filter(None, map(_status, filter(is_pending, pods))), ""):
        return said
    names = {pod.metadata.name for pod in pods}
    made = max((pod.metadata.creation_timestamp or LONG_AGO for pod in pods), default=LONG_AGO)
    warnings = [event for event in events if event.involved_object.name in names or _time(event) > made]
    last = max(warnings, key=_time, default=None)
    return _said(last.reason, last.message) if last else ""


def _status(pod: V1Pod) -> str:
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    for waiting in (found.state.waiting for found in statuses if found.state and found.state.waiting):
        if waiting.reason not in USUAL:
            return _said(waiting.reason, waiting.message)
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _said(condition.reason, condition.message)
    return ""


def _time(event: CoreV1Event) -> datetime:
    found: datetime | None = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return found or LONG_AGO


def _said(reason: str | None, message: str | None) -> str:
    return " ".join(": ".join(part for part in (reason, message) if part).split())[:MAX_SAID]
