"""Dependency graphs of questions: which sub-question needs the answer of which, from three forms of label.

- lists with explicit `depends_on` (the project's own questions);
- MuSiQue's sub-questions, in which `#n` stands for the answer of the n-th;
- 2WikiMultihopQA's evidence triples: a triple whose subject is another's object depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

_REFERENCE = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class SubQuestion:
    id: str
    text: str
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """Sub-questions without cycles; `levels` holds for each its level, from 1."""

    nodes: tuple[SubQuestion, ...]
    levels: tuple[int, ...]

    @property
    def width(self) -> int:
        """Sub-questions that can be searched at once in the first round."""
        return self.levels.count(1)

    @property
    def depth(self) -> int:
        """Rounds that are needed when each round asks all that can be asked."""
        return max(self.levels)


def build_graph(nodes: Sequence[SubQuestion]) -> DependencyGraph:
    """The graph over `nodes`.

    Raises:
        ValueError: there is none, an id occurs twice, a dependency is unknown, or there is a cycle.
    """
    if not nodes:
        raise ValueError("a graph needs a sub-question")
    needs = {node.id: node.depends_on for node in nodes}
    if len(needs) < len(nodes):
        raise ValueError("two sub-questions have the same id")
    for name, needed in needs.items():
        if missing := [other for other in needed if other not in needs]:
            raise ValueError(f"sub-question {name} depends on {missing[0]}, which is not there")
    levels: dict[str, int] = {}
    try:
        for name in TopologicalSorter(needs).static_order():
            levels[name] = 1 + max((levels[other] for other in needs[name]), default=0)
    except CycleError as error:
        raise ValueError(f"sub-question {error.args[1][0]} depends on itself") from None
    return DependencyGraph(tuple(nodes), tuple(levels[node.id] for node in nodes))


def from_references(texts: Sequence[str]) -> DependencyGraph:
    """From sub-questions in which `#n` is the answer of the n-th, counted from 1."""
    return build_graph(
        [
            SubQuestion(str(number), text, tuple(dict.fromkeys(_REFERENCE.findall(text))))
            for number, text in enumerate(texts, start=1)
        ]
    )


def from_triples(triples: Sequence[Sequence[str]]) -> DependencyGraph:
    """From evidence triples of subject, relation and object; `a` needs `b` where a's subject is b's object."""
    ends = {str(index): triple[-1].casefold() for index, triple in enumerate(triples)}
    return build_graph(
        [
            SubQuestion(
                str(index),
                " – ".join(triple[:-1]),
                tuple(other for other, end in ends.items() if other != str(index) and end == triple[0].casefold()),
            )
            for index, triple in enumerate(triples)
        ]
    )
