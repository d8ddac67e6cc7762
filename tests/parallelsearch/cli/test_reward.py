import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from parallelsearch.cli.reward import reward
from parallelsearch.schemas.answers import UsageModel
from parallelsearch.schemas.training import WeightsSpec

TRAINING = (Path(__file__).resolve().parents[3] / "docs" / "training.md").read_text()
TEXT = "<think> t </think> <search> a ## </search>"
LINE = {
    "id": "one",
    "question": "Who?",
    "mode": "parallel",
    "answer": "Monet",
    "stop_reason": "answered",
    "kind": "parallel",
    "golden_answers": ["Monet"],
    "turns": [
        {"index": 0, "action": {"type": "search", "queries": ["a"], "dropped": 0}, "text": TEXT},
        {"index": 1, "action": {"type": "answer", "text": "Monet"}, "text": "<think> t </think> <answer> Monet </answer>"},
    ],
}


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(reward)
    runner = CliRunner(env={"COLUMNS": "200"})
    return lambda *arguments, stdin=None: runner.invoke(app, [str(argument) for argument in arguments], input=stdin)


def write(path, *lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_breakdowns_come_one_a_line_and_in_order(run, tmp_path):
    path = write(tmp_path / "t.jsonl", LINE, "", {**LINE, "id": "two", "golden_answers": ["Pissarro"]})
    result = run(path, "--preset", "paper")
    rows = [json.loads(line) for line in result.stdout.splitlines()]

    assert [row["id"] for row in rows] == ["one", "two"]
    assert rows[0]["reward"] == pytest.approx(1.8)
    assert sum(rows[1]["terms"].values()) == pytest.approx(rows[1]["reward"]) == pytest.approx(0.9)


def test_a_byte_order_mark_before_the_first_line_of_a_file_is_taken(run, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LINE).encode() + b"\r\n")
    result = run(path, path)

    assert [json.loads(row)["id"] for row in result.stdout.splitlines()] == ["one", "one"]
    assert run(stdin=path.read_bytes()).exit_code == 0


def test_strict_is_the_default_and_stdin_is_read(run):
    result = run(stdin=json.dumps(LINE))

    assert json.loads(result.stdout)["reward"] == pytest.approx(1.35)


def test_weights_can_be_set(run):
    result = run("--decomposition", 0, "--search-count", 0, stdin=json.dumps(LINE))

    assert json.loads(result.stdout)["reward"] == 1.0


@pytest.mark.parametrize("option", ["--decomposition", "--alpha", "--search-count", "--format"])
@pytest.mark.parametrize("weight", ["nan", "inf", "1e999", "-1", "1e300", "x"])
def test_a_weight_that_makes_no_number_of_a_reward_is_refused(run, option, weight):
    result = run(option, weight, stdin=json.dumps(LINE))

    assert (result.exit_code, result.stdout) == (2, "")
    assert option in result.stderr


OPTIONS = {"--decomposition": "decomposition", "--alpha": "alpha", "--search-count": "search_count", "--format": "format"}


@pytest.mark.parametrize(("option", "field"), OPTIONS.items())
def test_a_weight_has_the_same_limit_here_as_in_a_training_run_and_the_error_says_it(run, option, field):
    limit = next(each.le for each in WeightsSpec.model_fields[field].metadata if hasattr(each, "le"))

    assert run(option, limit, stdin=json.dumps(LINE)).exit_code == 0
    WeightsSpec(**{field: limit})
    assert f"less than or equal to {limit}" in run(option, limit + 0.5, stdin=json.dumps(LINE)).stderr
    with pytest.raises(ValidationError, match=f"less than or equal to {limit}"):
        WeightsSpec(**{field: limit + 0.5})
    said = re.search(r"λd and λs up to ([\d,]+), α up to ([\d,]+), the format weight up to ([\d,]+)", TRAINING)
    numbers = [int(number.replace(",", "")) for number in said.groups()]
    assert dict(zip(OPTIONS, (numbers[0], numbers[1], numbers[0], numbers[2]), strict=True))[option] == limit


@pytest.mark.parametrize(
    ("broken", "message"),
    [("{", "JSON"), ({**LINE, "kind": "odd"}, "kind"), ({**LINE, "golden_answers": []}, "golden_answers"), ({**LINE, "x": 1}, "x")],
)
def test_a_broken_line_is_named_with_file_and_line_after_those_before_it(run, tmp_path, broken, message):
    path = write(tmp_path / "t.jsonl", LINE, broken, LINE)
    result = run(path)

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert f"{path}:2: " in result.stderr
    assert message in result.stderr


def searched(**changes):
    first, *others = LINE["turns"]
    return LINE | {"turns": [first | {"action": first["action"] | changes}, *others]}


@pytest.mark.parametrize(
    ("impossible", "field"),
    [
        (searched(queries=[]), "turns.0.action.search.queries"),
        (searched(queries=["a", " "]), "turns.0.action.search.queries.1"),
        (searched(dropped=-1), "turns.0.action.search.dropped"),
        (LINE | {"turns": [LINE["turns"][0] | {"index": -1}]}, "turns.0.index"),
        *((LINE | {"usage": {name: -1}}, f"usage.{name}") for name in UsageModel.model_fields),
    ],
)
def test_a_record_of_what_no_rollout_does_is_refused_by_line_and_field(run, tmp_path, impossible, field):
    path = write(tmp_path / "t.jsonl", LINE, impossible)
    result = run(path)

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert f"{path}:2: {field}: " in result.stderr


def test_a_missing_file_is_named(run, tmp_path):
    result = run(tmp_path / "none.jsonl")

    assert result.exit_code == 1
    assert "none.jsonl" in result.stderr


def test_a_reader_that_has_had_enough_is_no_fault(tmp_path):
    path = write(tmp_path / "t.jsonl", *[LINE] * 3_000)
    writer = subprocess.Popen(
        [sys.executable, "-m", "parallelsearch", "reward", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    writer.stdout.readline()
    writer.stdout.close()

    writer.wait(60)
    assert writer.stderr.read() == b""
