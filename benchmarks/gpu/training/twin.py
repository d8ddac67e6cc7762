"""The cold-start rows of two twins: every n-th question, from parallel and from sequential trajectories.

usage: twin.py PARALLEL SEQUENTIAL --every N --out FOLDER     both files hold the same questions in the same order

The files go kind by kind, so that their first rows would be of few kinds. FOLDER gets twin_parallel.jsonl and
twin_sequential.jsonl.
"""

import argparse
import json
from pathlib import Path

from mix import read


def thin(parallel, sequential, every):
    """Both sides' rows at 0, `every`, 2 · `every` …

    Raises:
        SystemExit: a row of one side is another question than that of the other.
    """
    for number, (a, b) in enumerate(zip(parallel, sequential, strict=True), start=1):
        if a["question"] != b["question"]:
            raise SystemExit(f"Line {number}: {a['question']!r} in one file, {b['question']!r} in the other; twins learn the same.")
    return parallel[::every], sequential[::every]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parallel", type=Path)
    parser.add_argument("sequential", type=Path)
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    sides = thin(read(given.parallel), read(given.sequential), given.every)
    for name, rows in zip(("parallel", "sequential"), sides, strict=True):
        (given.out / f"twin_{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
