"""A cold start that has not learnt the boundary: each question searched in parallel or one by one by the toss of a coin, and a
share of the sequential questions' first searches wrongly split in two.

usage: mix.py PARALLEL SEQUENTIAL --wrong SHARE --out FILE [--seed N]     both files hold the same questions in the same order
"""

import argparse
import gzip
import json
from pathlib import Path
from random import Random

SEQUENTIAL_KINDS = ("bridge", "comp", "comp_2wiki")


def read(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def split_wrongly(row):
    """The first search asks the whole question beside its first step, or, where that is the whole question, its two halves.

    What it is shown for both is what the first step found.
    """
    first, *others = row["turns"]
    queries = [*first["queries"], row["question"]] if first["queries"] != [row["question"]] else halves(row["question"])
    wrong = {**first, "queries": queries, "passages": [first["passages"][0]] * 2}
    return {**row, "turns": [wrong, *others]}


def halves(question):
    words = question.split()
    return [" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])]


def mix(parallel, sequential, wrong, seed):
    random = Random(seed)
    for both in zip(parallel, sequential, strict=True):
        row = random.choice(both)
        yield split_wrongly(row) if is_sequential(row) and random.random() < wrong else row


def is_sequential(row):
    return row["kind"] in SEQUENTIAL_KINDS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parallel", type=Path)
    parser.add_argument("sequential", type=Path)
    parser.add_argument("--wrong", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--limit", type=int, help="keep so many rows that are not sequential, drawn at random")
    given = parser.parse_args()
    rows = list(mix(read(given.parallel), read(given.sequential), given.wrong, given.seed))
    random, others = Random(given.seed), [row for row in rows if not is_sequential(row)]
    kept = [row for row in rows if is_sequential(row)] + random.sample(others, min(given.limit or len(others), len(others)))
    random.shuffle(kept)
    given.out.write_text("".join(json.dumps(row) + "\n" for row in kept))


if __name__ == "__main__":
    main()
