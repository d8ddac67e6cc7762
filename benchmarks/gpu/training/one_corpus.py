"""One corpus out of several: ids get their set's name before them, and what stands twice is kept once.

usage: one_corpus.py OUT SET_corpus.jsonl.gz …
"""

import gzip
import json
import sys
from pathlib import Path


def rows(paths):
    seen = set()
    for path in paths:
        with gzip.open(path, "rt") as lines:
            for row in map(json.loads, lines):
                passage = json.dumps({name: value for name, value in row.items() if name != "id"}, sort_keys=True)
                if passage not in seen:
                    seen.add(passage)
                    yield {**row, "id": f"{path.name.removesuffix('_corpus.jsonl.gz')}-{row['id']}"}


def main():
    out, *paths = map(Path, sys.argv[1:])
    with out.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(paths))


if __name__ == "__main__":
    main()
