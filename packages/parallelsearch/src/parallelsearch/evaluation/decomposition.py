"""How the policy decomposed, against how it should have: apart from whether the answer is right.

The first search is judged by its distinct sub-queries, those over the limit included (in `sequential` mode all but one are
dropped: the policy decomposed all the same). Gold is the question's label, and its dependency graph where there is one: the
first round should hold as many sub-queries as sub-questions that depend on nothing (its width), the rollout as many rounds as
the graph is deep, and as many sub-queries as it has nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from parallelsearch.evaluation.questions import Question
from parallelsearch.protocol.actions import query_key
from parallelsearch.rollout.types import Search, Trajectory


@dataclass(frozen=True, slots=True)
class Decomposition:
    """`first_width` is 0 without a search. None where the question is not labelled."""

    decomposed: bool
    needed: bool | None
    first_width: int
    rounds: int
    sub_queries: int
    gold_width: int | None = None
    gold_depth: int | None = None
    gold_sub_queries: int | None = None

    @property
    def width_right(self) -> bool | None:
        return None if self.gold_width is None else self.first_width == self.gold_width

    @property
    def depth_right(self) -> bool | None:
        return None if self.gold_depth is None else self.rounds == self.gold_depth

    @property
    def shape_right(self) -> bool | None:
        """Width of the first round, number of rounds and number of sub-queries are all those of the graph."""
        if self.gold_width is None:
            return None
        return bool(self.width_right and self.depth_right and self.sub_queries == self.gold_sub_queries)


def read_decomposition(question: Question, trajectory: Trajectory) -> Decomposition:
    searches = [turn.action for turn in trajectory.turns if isinstance(turn.action, Search)]
    first = _distinct(searches[0]) + searches[0].dropped if searches else 0
    distinct = {query_key(query) for search in searches for query in search.queries}
    graph = question.graph
    return Decomposition(
        decomposed=first >= 2,
        needed=question.needs_decomposition,
        first_width=first,
        rounds=sum(bool(turn.observation) for turn in trajectory.turns),
        sub_queries=len(distinct) + sum(search.dropped for search in searches),
        gold_width=graph.width if graph else None,
        gold_depth=graph.depth if graph else None,
        gold_sub_queries=len(graph.nodes) if graph else None,
    )


def _distinct(search: Search) -> int:
    return len({query_key(query) for query in search.queries})
