"""Where the real data sets lie, which are no part of the repository: beside the checkout, or where PARALLELSEARCH_SHARED says."""

import gzip
import json
import os
from pathlib import Path

import pytest


def shared_folder() -> Path | None:
    return next((folder for folder in _candidates() if (folder / "data").is_dir()), None)


def shared_data() -> Path:
    """The folder of data sets; the test is skipped, and says why, where there is none."""
    found = shared_folder()
    if found is not None:
        return found / "data"
    places = ", ".join(map(str, _candidates()))
    pytest.skip(f"SKIPPED, NOT PASSED: the real data sets are not in {places}; set PARALLELSEARCH_SHARED")


def comparisons_with_corpus(passages, questions):
    """Comparison questions over real passages: a cut of the corpus that holds what the questions rest on."""
    data = shared_data()
    rows = [json.loads(line) for line in (data / "hotpotqa.jsonl").read_text().splitlines()]
    asked = [row for row in rows if row["type"] == "comparison" and row["answerable"]][:questions]
    needed = {title for row in asked for title in row["supporting_titles"]}
    with gzip.open(data / "hotpotqa_corpus.jsonl.gz", "rt") as file:
        lines = list(file)
    holding = [line for line in lines if json.loads(line)["contents"].split("\n")[0].strip('"') in needed]
    return asked, [*holding, *(line for line in lines if line not in set(holding))][:passages]


def _candidates() -> list[Path]:
    named = os.environ.get("PARALLELSEARCH_SHARED")
    return [Path(named)] if named else [folder / "shared" for folder in Path(__file__).resolve().parents[2:4]]
