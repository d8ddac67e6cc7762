import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from gateway_stand_in import gateway_stand_in, problem, trajectory
from service_stand_ins import free_port

ROW = {
    "question": "Who is older, Claude Monet or Camille Pissarro?",
    "golden_answers": ["Camille Pissarro"],
    "type": "comparison",
    "supporting_titles": ["Claude Monet"],
}


@pytest.fixture
def gateway():
    with gateway_stand_in() as stand_in:
        stand_in.answer = (200, trajectory().model_dump(mode="json"))
        yield stand_in


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "asked.jsonl"
    rows = [{**ROW, "id": f"q{number}"} for number in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"id": "broken"}\n')
    return path


def command(*arguments, gateway=None):
    away = f"http://127.0.0.1:{free_port()}"
    where = ["--url", gateway.url, "--policy", away, "--retriever", away] if gateway else []
    return [str(Path(sys.executable).parent / "parallelsearch"), "eval", *map(str, arguments), *where]


def run(*arguments, gateway=None, cwd=None):
    environment = {**os.environ, "PARALLELSEARCH_COMMIT": "c0ffee"}
    return subprocess.run(
        command(*arguments, gateway=gateway), capture_output=True, text=True, cwd=cwd, env=environment, timeout=60
    )


def test_questions_are_asked_and_the_reports_written(gateway, questions, tmp_path):
    done = run(
        questions, "--mode", "parallel", "--top-k", 5, "--limit", 3, "--out", tmp_path / "out", gateway=gateway, cwd=tmp_path
    )

    assert done.returncode == 0, done.stderr
    assert "asked.jsonl:5: question" in done.stderr
    assert "3 of 5 rows are asked, 1 beyond the limit, 1 cannot be read" in done.stderr
    assert "3/3 (100%)" in done.stderr
    assert len(gateway.seen) == 3
    assert gateway.seen[0][1]["top_k"] == 5
    report = (tmp_path / "out" / "report.md").read_text()
    assert "c0ffee" in report
    assert (tmp_path / "out" / "report.html").exists()


def test_the_same_command_again_asks_nothing_and_another_is_refused(gateway, questions, tmp_path):
    first = [questions, "--mode", "parallel", "--out", tmp_path / "out"]
    run(*first, gateway=gateway, cwd=tmp_path)
    asked = len(gateway.seen)
    again = run(*first, gateway=gateway, cwd=tmp_path)
    other = run(*first, "--top-k", 7, gateway=gateway, cwd=tmp_path)

    assert (again.returncode, len(gateway.seen)) == (0, asked)
    assert other.returncode == 2
    assert "other limits" in other.stderr


def test_two_modes_are_compared_from_the_command_line(gateway, questions, tmp_path):
    run(questions, "--out", tmp_path / "out", gateway=gateway, cwd=tmp_path)
    sides = [f"{tmp_path / 'out'}:parallel", f"{tmp_path / 'out'}:sequential"]
    printed = run("compare", *sides)
    written = run("compare", *sides, "--out", tmp_path / "compared")

    remade = run("report", tmp_path / "out")

    assert "McNemar" in printed.stdout
    assert "report.html" in remade.stderr
    assert written.returncode == 0
    assert {path.suffix for path in (tmp_path / "compared").iterdir()} == {".md", ".json", ".html"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.jsonl", "--out", "x"], "none.jsonl"),
        (["nq"], "--out"),
        ([], "Usage"),
        (["compare", "here", "there"], "holds no evaluation run"),
        (["run"], "Name at least one file"),
        (["nq", "--layout", "compact", "--out", "x"], "--layout goes with --direct"),
    ],
)
def test_what_is_missing_is_said(arguments, said, tmp_path):
    done = run(*arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert said in done.stderr + done.stdout


def test_a_refusal_of_the_gateway_stops_the_run_with_its_own_words(gateway, questions, tmp_path):
    gateway.answer = problem(422, "invalid-request", "model: 'x' is not served here")
    done = run(questions, "--model", "x", "--out", tmp_path / "out", gateway=gateway, cwd=tmp_path)

    assert done.returncode == 2
    assert "'x' is not served here" in done.stderr


def test_a_gateway_that_is_loaded_is_waited_for_and_said_once(gateway, questions, tmp_path):
    good = gateway.answer
    gateway.answer = problem(503, "overloaded", "Too many answers are in flight.")

    def recover():
        while len(gateway.seen) < 4:
            time.sleep(0.01)
        gateway.answer = good

    recovering = threading.Thread(target=recover, daemon=True)
    recovering.start()
    done = run(questions, "--out", tmp_path / "out", gateway=gateway, cwd=tmp_path)
    recovering.join(10)

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("[eval] Too many answers are in flight. Asked again in ") == 1
    assert "8/8 (100%)" in done.stderr and not done.stdout


def test_a_canary_exports_what_it_sees_until_it_is_told_to_stop(gateway, questions, tmp_path):
    port = free_port()
    watch = command("--canary", questions, "--interval", 1, "--port", port, gateway=gateway)
    canary = subprocess.Popen(watch, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    lines = []
    threading.Thread(target=lambda: lines.extend(canary.stderr), daemon=True).start()
    until = time.monotonic() + 30
    while not any("round done: 4 of 4 right" in line for line in lines) and time.monotonic() < until:
        time.sleep(0.05)
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    canary.terminate()

    assert canary.wait(10) in (0, 130)
    assert 'parallelsearch_canary_exact_match{kind="parallel"} 1.0' in metrics
    assert re.search(r'parallelsearch_canary_answers_total{stop_reason="answered"} \d', metrics)
