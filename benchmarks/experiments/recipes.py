"""The experiments as recipes, in the order in which they matter: a run that is short of time ends with the last ones missing.

main       every set on its own kind of corpus, parallel and sequential mode
graphs     (b) decomposition against hand-made dependency graphs, traps among them
alone      (c) wall clock of single rollouts, one at a time: parallel against sequential on comparisons
corpora    (d) the questions on covid papers and news, with Wikipedia in the place of their own corpus
top-k      (e) the number of passages per sub-query, 1 to 10
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from corpora import DEMO, OTHER_SETS, WIKIPEDIA, WIKIPEDIA_SETS

from parallelsearch.demo import demo_file
from parallelsearch.evaluation.questions import Subset
from parallelsearch.rollout.types import Mode

BOTH = (Mode.PARALLEL, Mode.SEQUENTIAL)
TOP_K = (1, 2, 5, 7, 10)
"""3 is the main run."""
TOP_K_SETS = ("hotpotqa", "2wikimultihopqa", "nq")


@dataclass(frozen=True, slots=True)
class Recipe:
    """One run: its folder, files, corpus, and what differs from the platform's defaults. `share` cuts the limit per set."""

    name: str
    group: str
    corpus: str
    sets: tuple[str, ...]
    modes: tuple[Mode, ...] = BOTH
    top_k: int = 3
    concurrency: int | None = None
    share: float = 1.0
    subset: Subset | None = None
    note: str = ""
    models: tuple[str, ...] = field(default=())

    def files(self, data: Path) -> list[Path]:
        return [demo_file(f"{name}.jsonl") if self.corpus == DEMO else data / f"{name}.jsonl" for name in self.sets]


def recipes() -> list[Recipe]:
    found = [Recipe("main-wikipedia", "main", WIKIPEDIA, WIKIPEDIA_SETS)]
    found += [Recipe(f"main-{name}", "main", name, (name,)) for name in OTHER_SETS]
    found.append(Recipe("graphs", "graphs", DEMO, ("graph_questions",), note="hand-made dependency graphs over the demo corpus"))
    alone = ("2wikimultihopqa",)
    found.append(
        Recipe("alone", "alone", WIKIPEDIA, alone, concurrency=1, share=0.2, subset=Subset.PARALLEL, note="one rollout at a time")
    )
    found += [
        Recipe(f"{name}-on-wikipedia", "corpora", WIKIPEDIA, (name,), (Mode.PARALLEL,), note="not the corpus of its evidence")
        for name in OTHER_SETS
    ]
    found += [Recipe(f"top-k-{top_k}", "top-k", WIKIPEDIA, TOP_K_SETS, (Mode.PARALLEL,), top_k=top_k, share=0.5) for top_k in TOP_K]
    return found
