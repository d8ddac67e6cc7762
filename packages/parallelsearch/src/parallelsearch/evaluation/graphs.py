"""Dependency graphs of questions: which sub-question needs the answer of which, from three forms of label.

- lists with explicit `depends_on` (the project's own questions);
- MuSiQue's sub-questions, in which `#n` stands for the answer of the n-th;
- 2WikiMultihopQA's evidence triples: a triple whose subject is another's object depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ValueError("two sub-questions have the same id")
    levels: dict[str, int] = {}

    def level(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            raise ValueError(f"sub-question {name} depends on itself")
        if name not in by_id:
            raise ValueError(f"sub-question {path[-1]} depends on {name}, which is not there")
        if name not in levels:
            levels[name] = 1 + max((level(needed, (*path, name)) for needed in by_id[name].depends_on), default=0)
        return levels[name]

    return DependencyGraph(tuple(nodes), tuple(level(node.id, ()) for node in nodes))


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
