"""What is read of a run's files, and how often."""

import json

import pytest
from rollout_records import RECORD

from trainer.progress import Reader
from trainer.tail import LONGEST_LINE, Tail


def fact(at, **changes):
    return json.dumps({**RECORD, "time": float(at), **changes}) + "\n"


@pytest.fixture
def run_folder(tmp_path):
    (tmp_path / "rollouts").mkdir()
    return tmp_path


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_each_look_reads_only_what_is_new(run_folder):
    facts, log = run_folder / "rollouts" / "facts-a-1.jsonl", run_folder / "output.log"
    append(facts, fact(1) + fact(2))
    append(log, "Global step 1: {'kl': 0.5}\n")
    reader = Reader(run_folder, 2)
    reader.read_on()
    for path in (facts, log):
        path.write_text("x" * (path.stat().st_size - 1) + "\n")
    append(facts, fact(3, matched=False) + fact(4))
    append(log, "Global step 2: {'kl': 0.75}\n")
    reader.read_on()

    assert [step["exact_match"] for step in reader.steps] == [1.0, 0.5]
    assert reader.logged == {1: {"kl": 0.5}, 2: {"kl": 0.75}}


def test_reading_on_says_what_reading_at_once_says(run_folder):
    paths = [run_folder / "rollouts" / f"facts-a-{n}.jsonl" for n in range(3)]
    reader = Reader(run_folder, 6)
    for at in range(100):
        append(paths[at % 3], fact(at, matched=at % 7 == 0, kind="sequential" if at % 2 else "parallel"))
        reader.read_on()
    at_once = Reader(run_folder, 6)
    at_once.read_on()

    assert len(reader.steps) == 16
    assert reader.steps == at_once.steps


def test_a_record_that_is_seen_late_still_counts_in_its_step(run_folder):
    early, late = run_folder / "rollouts" / "facts-a-1.jsonl", run_folder / "rollouts" / "facts-b-1.jsonl"
    append(early, fact(1) + fact(3, matched=False))
    reader = Reader(run_folder, 2)
    reader.read_on()
    append(late, fact(2))
    append(early, fact(4, matched=False))
    reader.read_on()

    assert [step["exact_match"] for step in reader.steps] == [1.0, 0.0]


def test_a_line_that_is_being_written_waits(run_folder):
    facts = run_folder / "rollouts" / "facts-a-1.jsonl"
    append(facts, fact(1) + fact(2)[:50])
    reader = Reader(run_folder, 2)
    reader.read_on()
    assert reader.steps == []
    append(facts, fact(2)[50:])
    reader.read_on()

    assert len(reader.steps) == 1


def test_a_file_that_was_cut_is_another_one(run_folder):
    log = run_folder / "output.log"
    log.write_text("Global step 1: {'kl': 0.5}\nGlobal step 2: {'kl': 0.5}\n")
    reader = Reader(run_folder, 0)
    reader.read_on()
    assert not reader.is_cut
    log.write_text("Global step 3: {'kl': 0.5}\n")
    assert reader.is_cut
    reader.begin_anew()
    reader.read_on()

    assert list(reader.logged) == [3]


def test_a_line_without_an_end_takes_no_memory_without_one(tmp_path):
    log = tmp_path / "output.log"
    log.write_bytes(b"x" * (2 * LONGEST_LINE) + b"\nlast\n")

    assert list(Tail(log).lines())[-1] == b"last"
    assert max(map(len, Tail(log).lines())) <= LONGEST_LINE + (1 << 20)
