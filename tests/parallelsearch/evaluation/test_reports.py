import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_fakes import FakeAsker, a_plan, rows

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.comparing import compare_sides, read_side
from parallelsearch.evaluation.plan import Cell
from parallelsearch.evaluation.reports.writing import write_comparison, write_run_report
from parallelsearch.evaluation.session import carry_out, open_run
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.evaluation.summary import summarise
from parallelsearch.rollout.types import Kind, Mode

EVIL = "</script><script>alert(1)</script> <img src=x onerror=alert(2)> | `a` [x](javascript:alert(3)) $\\frac{1}{0}$ ## <search>"


@pytest.fixture
def evaluate(write, tmp_path):
    """Runs the questions through the fake asker into a folder of its own."""

    def run(*questions, name="run", plan=None, asker=None, **fields):
        folder = RunFolder(tmp_path / name)
        plan = plan or a_plan(write(*questions), **fields)
        return folder, asyncio.run(carry_out(folder, plan, asker or FakeAsker(), lambda _: None))

    return run


def mixed(count):
    kinds = ({"type": "comparison"}, {"type": "bridge"}, {"type": "compositional"}, {"type": "single"})
    return [{**row, **kinds[number % 4]} for number, row in enumerate(rows(count))]


def test_a_summary_has_every_metric_by_kind_and_type_with_n_and_interval(evaluate):
    summary, _ = summarise(*evaluate(*mixed(40)))
    parallel = summary.cells[0]

    assert list(parallel.groups) == [
        "all", "kind parallel", "kind sequential", "kind unlabelled", "type bridge", "type compositional",
    ]  # fmt: skip
    assert [group.n for group in parallel.groups.values()] == [40, 10, 20, 10, 10, 10]
    found = parallel.groups["all"].metrics["exact_match"]
    assert (found.value, found.n) == (0.5, 40)
    assert 0.3 < found.low < 0.5 < found.high < 0.7
    assert parallel.groups["kind parallel"].metrics["decomposition_recall"].value == 1.0
    assert parallel.groups["kind sequential"].metrics["decomposition_accuracy"].value == 0.0
    assert parallel.groups["all"].llm_calls == {"2": 40}
    assert parallel.answered_by == {"fake · 1 · f00d": 40}


def test_the_report_says_what_was_measured_and_what_was_not(evaluate):
    folder, run = evaluate(*rows(6), {"id": "no question"}, note="a note")
    write_run_report(folder, run)
    markdown = (folder.path / "report.md").read_text()

    for said in ("top\\_k", "c0ffee", "2026-01-01", "6 of 7 asked", "1 could not be read", "set.jsonl:7", "a note", "Definitions"):
        assert said in markdown
    content = json.loads((folder.path / "report.json").read_text())
    assert content["summary"]["cells"][0]["groups"]["all"]["metrics"]["exact_match"]["n"] == 6
    assert content["metrics"]["exact_match"]["definition"]


def test_the_papers_sets_that_were_not_asked_are_named(write, evaluate):
    plan = a_plan(write(*rows(4), name="nq.jsonl"))
    folder, run = evaluate(plan=plan)
    write_run_report(folder, run)

    assert "bamboogle" in (folder.path / "report.md").read_text()


def test_the_same_trajectories_give_the_same_report_to_the_byte(evaluate, write):
    plan = a_plan(write(*mixed(12)))
    reports = []
    for name, concurrency in (("one", 1), ("two", 7)):
        folder, run = evaluate(plan=plan, name=name, asker=FakeAsker(latency_s=0.001 * concurrency))
        write_run_report(folder, run)
        reports.append([(folder.path / f"report.{ending}").read_bytes() for ending in ("json", "md")])

    assert reports[0] == reports[1]


def test_a_run_killed_with_sigkill_reports_the_same_as_an_undisturbed_one(tmp_path, write):
    path = write(*rows(60))
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[2] / "support")!r})
from pathlib import Path
from evaluation_fakes import FakeAsker, a_plan
from parallelsearch.evaluation.reports.writing import write_run_report
from parallelsearch.evaluation.session import carry_out
from parallelsearch.evaluation.store import RunFolder
folder = RunFolder(Path(sys.argv[1]))
run = asyncio.run(carry_out(folder, a_plan(Path({str(path)!r})), FakeAsker(latency_s=0.02), print))
write_run_report(folder, run)
"""

    def start(name):
        return subprocess.Popen([sys.executable, "-c", program, str(tmp_path / name)], stdout=subprocess.DEVNULL)

    assert start("undisturbed").wait(60) == 0
    killed = start("killed")
    file = RunFolder(tmp_path / "killed").file(Cell("set", Mode.SEQUENTIAL))
    until = time.monotonic() + 30
    while not (file.exists() and file.read_bytes().count(b"\n") >= 10) and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait(10) == -signal.SIGKILL
    assert 10 <= file.read_bytes().count(b"\n") < 60
    assert start("killed").wait(60) == 0

    for ending in ("json", "md"):
        assert (tmp_path / "killed" / f"report.{ending}").read_bytes() == (
            tmp_path / "undisturbed" / f"report.{ending}"
        ).read_bytes()


def test_text_of_others_cannot_act_in_the_page_or_break_a_table(evaluate):
    folder, run = evaluate(
        *[{**row, "question": EVIL, "golden_answers": [EVIL], "supporting_titles": [EVIL]} for row in rows(3)], note=EVIL
    )
    write_run_report(folder, run)
    page = (folder.path / "report.html").read_text()

    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in data
    index = json.loads(data.splitlines()[0])
    assert index["questions"][0]["question"] == EVIL
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", page)
    note = next(line for line in (folder.path / "report.md").read_text().splitlines() if line.startswith("| note"))
    assert len(re.findall(r"(?<!\\)\|", note)) == 3
    assert "](" not in note
    assert "<img" not in note.replace(r"\<", "")


def test_the_page_holds_every_trajectory_once_and_every_passage_once(evaluate):
    folder, run = evaluate(*rows(5))
    write_run_report(folder, run)
    page = (folder.path / "report.html").read_text()
    lines = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1].splitlines()

    assert [line[0] for line in lines[1:]].count("T") == 10
    assert [line[0] for line in lines[1:]].count("P") == 2
    assert len(json.loads(lines[0])["trajectories"]) == 10
    assert page.count("<svg") == 3


def test_a_run_that_has_only_begun_has_a_report_that_says_so(write, tmp_path):
    folder = RunFolder(tmp_path / "run")
    run = open_run(folder, a_plan(write(*rows(4))))
    write_run_report(folder, run)

    assert "4 questions have no trajectory yet" in (folder.path / "report.md").read_text()


def test_two_modes_of_a_run_are_compared_on_the_same_questions(evaluate):
    folder, _ = evaluate(*mixed(40))
    found = compare_sides(read_side(f"{folder.path}:parallel"), read_side(f"{folder.path}:sequential"))
    row = found.rows[0]

    assert (row.group, row.n) == ("all", 40)
    assert row.metrics["llm_calls"].relative == pytest.approx(2 / 3)
    assert row.wall_clock["p50"].relative < 0.75
    assert row.exact_match.only_a - row.exact_match.only_b == 20 - 14
    assert {one.group for one in found.rows} >= {"kind parallel", "kind sequential"}


def test_two_runs_are_compared_and_their_differences_named(evaluate, write, tmp_path):
    evaluate(*rows(20), name="a", modes=(Mode.PARALLEL,))
    evaluate(*rows(16), name="b", modes=(Mode.PARALLEL,), asker=FakeAsker())
    comparison, paths = write_comparison(tmp_path / "out", read_side(str(tmp_path / "a")), read_side(str(tmp_path / "b")))

    assert comparison.unpaired == 4
    assert "sets" in comparison.differing
    assert comparison.rows[0].exact_match.p == 1.0
    assert all(path.exists() for path in paths)
    assert "4 questions were answered by one side only" in paths[1].read_text()


def test_the_note_on_twins_has_the_figures_of_the_comparison_and_no_question(evaluate, tmp_path):
    questions = mixed(40)
    evaluate(*questions, name="out/parallel", modes=(Mode.PARALLEL,))
    evaluate(*questions, name="out/sequential", modes=(Mode.SEQUENTIAL,))
    comparison, _ = write_comparison(
        tmp_path / "out", *(read_side(f"{tmp_path}/out/{mode}") for mode in ("parallel", "sequential"))
    )
    shutil.copytree(tmp_path / "out", tmp_path / "again")
    script = Path(__file__).parents[3] / "benchmarks" / "twins.py"
    command = [sys.executable, str(script), str(tmp_path / "out"), "--out", str(tmp_path)]
    command += ["--alone", str(tmp_path / "out"), str(tmp_path / "again")]
    subprocess.run(command, check=True, timeout=60)

    told, note = json.loads((tmp_path / "evaluation_twins.json").read_text()), (tmp_path / "evaluation_twins.md").read_text()
    assert [(row["group"], row["n"]) for row in told["groups"]["out"]] == [
        (row.group, row.n) for row in comparison.rows if not row.group.startswith("type")
    ]
    calls, pair = told["groups"]["out"][0]["metrics"]["llm_calls"], comparison.rows[0].metrics["llm_calls"]
    assert (calls["a"], calls["b"], calls["interval"][0]) == pytest.approx((pair.a, pair.b, pair.interval.low), abs=1e-4)
    assert told["alone"]["n"] == 2 * 40
    assert told["alone"]["median"]["ratio"] == pytest.approx(comparison.rows[0].wall_clock["p50"].relative, abs=1e-4)
    assert "2.00, 3.00, -1.00 [-1.00, -1.00]" in note
    assert not any(row["question"] in note + json.dumps(told) for row in questions)


def test_a_reference_that_names_no_side_says_which_there_are(evaluate, tmp_path):
    folder, _ = evaluate(*rows(2))

    with pytest.raises(InvalidInput, match="run:parallel"):
        read_side(str(folder.path))
    with pytest.raises(InvalidInput, match="no evaluation run"):
        read_side(str(tmp_path / "nowhere"))


def test_several_sets_are_pooled_and_their_mean_is_taken(write, tmp_path):
    one, two = a_plan(write(*rows(12), name="one.jsonl")), a_plan(write(*mixed(8), name="two.jsonl"))
    folder = RunFolder(tmp_path / "run")
    plan = replace(one, selected=one.selected + two.selected)
    run = asyncio.run(carry_out(folder, plan, FakeAsker(), lambda _: None))
    summary, _ = summarise(folder, run)
    compared = compare_sides(read_side(f"{folder.path}:parallel"), read_side(f"{folder.path}:sequential"))

    assert next((m.mode, m.sets, m.exact_match.value, m.exact_match.n) for m in summary.macro_means) == (Mode.PARALLEL, 2, 0.5, 20)
    assert (compared.rows[0].set_name, compared.rows[0].n) == ("all sets", 20)
    assert Kind.PARALLEL in {question.kind for question in plan.questions}


@pytest.mark.parametrize("name", ["run", "2026-11-29T10:30:00", "a:parallel"])
def test_a_side_is_found_in_a_folder_of_any_name(evaluate, tmp_path, name):
    folder, _ = evaluate(*rows(2), name=name)
    for mode in ("parallel", "sequential"):
        side = read_side(f"{folder.path}:{mode}")
        assert (side.folder.path, side.cells) == (folder.path, (Cell("set", Mode(mode)),))
    with pytest.raises(InvalidInput, match=f"{name}:parallel, .*{name}:sequential"):
        read_side(str(folder.path))
    with pytest.raises(InvalidInput, match="nowhere holds no evaluation run"):
        read_side(f"{tmp_path}/nowhere:parallel")


def test_the_report_of_one_question_shows_its_values_without_intervals(evaluate):
    folder, run = evaluate(*rows(1))
    written = write_run_report(folder, run)
    text = (folder.path / "report.md").read_text()

    assert "| set | parallel | 1 | 100.0 |" in text
    assert not re.search(r"\[\d", text)
    assert written.summary.cells[0].groups["all"].metrics["exact_match"].low is None
    assert (folder.path / "report.html").read_text().count("n = 1") >= 1
