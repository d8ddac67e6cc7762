"""Questions with their labels: what is asked, what is right, and how it should be decomposed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from parallelsearch.evaluation.graphs import DependencyGraph
from parallelsearch.rollout.types import Kind

PAPER_SETS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle", "multihoprag")
"""What the paper reports on (arXiv 2508.09303, table 2, and MultiHop-RAG)."""


class Subset(StrEnum):
    """The paper's two cuts of HotpotQA, 2WikiMultihopQA and MultiHop-RAG."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


SUBSET_TYPES = {
    "hotpotqa": ({"comparison"}, {"bridge"}),
    "2wikimultihopqa": ({"comparison"}, {"compositional", "inference"}),
    "multihoprag": ({"comparison"}, {"inference"}),
}
"""Per set, the types of its parallel and of its sequential subset, as the published script for the subsets cuts them.

Each row goes by its own type: the published merged test file, which calls every row a comparison, is not what we follow.
2WikiMultihopQA's bridge_comparison is in neither subset.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """`needs_decomposition` is None where nobody labelled it; `graph` is None where no sub-questions are known."""

    set_name: str
    id: str
    question: str
    golden_answers: tuple[str, ...]
    type: str
    kind: Kind
    needs_decomposition: bool | None = None
    supporting_titles: tuple[str, ...] = ()
    graph: DependencyGraph | None = None
    trap: bool = False
    """Looks parallel and is not."""
    split: str = ""
    answerable: bool | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.set_name, self.id


def needs_decomposition(kind: Kind, question_type: str, graph: DependencyGraph | None) -> bool | None:
    """Whether the first search should hold several sub-queries: by the graph where there is one, else by kind and type.

    Single-hop questions need none; temporal, null and unknown types are not labelled.
    """
    if graph is not None and len(graph.nodes) > 1:
        return graph.width >= 2
    if kind in {Kind.PARALLEL, Kind.HYBRID}:
        return True
    return False if kind is Kind.SEQUENTIAL or question_type == "single" else None


def in_subset(question: Question, subset: Subset) -> bool:
    """Whether the question is in the paper's subset; sets of which the paper cuts none are in neither."""
    parallel, sequential = SUBSET_TYPES.get(question.set_name, (set[str](), set[str]()))
    return question.type in (parallel if subset is Subset.PARALLEL else sequential)
