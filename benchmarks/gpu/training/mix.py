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
    """The first search asks the whole question beside its first step; what it is shown for that is what the first step found."""
    first, *others = row["turns"]
    wrong = {**first, "queries": [*first["queries"], row["question"]], "passages": [*first["passages"], first["passages"][0]]}
    return {**row, "turns": [wrong, *others]}


def mix(parallel, sequential, wrong, seed):
    random = Random(seed)
    for both in zip(parallel, sequential, strict=True):
        row = random.choice(both)
        is_sequential = row["kind"] in SEQUENTIAL_KINDS and len(row["turns"]) > 2
        yield split_wrongly(row) if is_sequential and random.random() < wrong else row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parallel", type=Path)
    parser.add_argument("sequential", type=Path)
    parser.add_argument("--wrong", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--limit", type=int, help="keep so many rows, drawn at random")
    given = parser.parse_args()
    rows = list(mix(read(given.parallel), read(given.sequential), given.wrong, given.seed))
    rows = Random(given.seed).sample(rows, min(given.limit or len(rows), len(rows)))
    given.out.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
