"""What kind a question is, from the type that its data set gives it."""

from __future__ import annotations

from parallelsearch.rollout.types import Kind

KINDS = {
    "comparison": Kind.PARALLEL,
    "bridge": Kind.SEQUENTIAL,
    "compositional": Kind.SEQUENTIAL,
    "inference": Kind.SEQUENTIAL,
    "bridge_comparison": Kind.HYBRID,
}


def kind_of(question_type: str | None) -> Kind:
    """The kind of a question of the public data sets; single-hop, temporal, null and unknown types are unlabelled."""
    return KINDS.get((question_type or "").strip().lower(), Kind.UNLABELLED)
