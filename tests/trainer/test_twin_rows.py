"""The rows that two twins learn from."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu" / "training" / "twin.py"
KINDS = {"comparison": 300, "chain": 150, "single": 60}


def rows(side: str, questions: list[str]) -> list[dict[str, str]]:
    return [{"kind": question.split()[0], "question": question, "side": side} for question in questions]


def run(tmp_path: Path, parallel: list[dict[str, str]], sequential: list[dict[str, str]]) -> subprocess.CompletedProcess[str]:
    for name, content in (("parallel", parallel), ("sequential", sequential)):
        with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in content)
    command = [sys.executable, str(SCRIPT), str(tmp_path / "parallel.gz"), str(tmp_path / "sequential.gz")]
    return subprocess.run([*command, "--every", "3", "--out", str(tmp_path)], capture_output=True, text=True, timeout=60)


def test_twins_learn_the_same_questions_of_every_kind_in_its_share(tmp_path: Path) -> None:
    questions = [f"{kind} {number}" for kind, count in KINDS.items() for number in range(count)]  # kind by kind, as the files are
    assert run(tmp_path, rows("parallel", questions), rows("sequential", questions)).returncode == 0
    learnt = {
        side: [json.loads(line) for line in (tmp_path / f"twin_{side}.jsonl").read_text().splitlines()]
        for side in ("parallel", "sequential")
    }
    assert [row["question"] for row in learnt["parallel"]] == [row["question"] for row in learnt["sequential"]]
    assert {row["side"] for row in learnt["sequential"]} == {"sequential"}
    assert Counter(row["kind"] for row in learnt["parallel"]) == {kind: count // 3 for kind, count in KINDS.items()}


@pytest.mark.parametrize("other", [["a", "c"], ["a"]])
def test_files_of_other_questions_are_refused(tmp_path: Path, other: list[str]) -> None:
    ended = run(tmp_path, rows("parallel", ["a", "b"]), rows("sequential", other))
    assert ended.returncode != 0
    assert not (tmp_path / "twin_parallel.jsonl").exists()
