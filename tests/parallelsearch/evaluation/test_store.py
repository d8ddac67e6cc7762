"""The folder of a run while others write to it, while the disk is full, and where names differ in what files cannot hold."""

import asyncio
import errno
import os
import resource
import subprocess
import sys
from dataclasses import replace

import orjson
import pytest
from evaluation_fakes import FakeAsker, a_plan, rows

from parallelsearch.errors import InvalidInput
from parallelsearch.evaluation.plan import Cell
from parallelsearch.evaluation.reports.page_data import Column, data_lines
from parallelsearch.evaluation.reports.writing import write_run_report
from parallelsearch.evaluation.session import carry_out, read_manifest
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.evaluation.wire import StackModel
from parallelsearch.rollout.types import Mode

CELL = Cell("set", Mode.PARALLEL)
HOLDER = """
import sys
from pathlib import Path
from parallelsearch.evaluation.store import RunFolder
with RunFolder(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def carry(folder, plan, asker):
    return asyncio.run(carry_out(folder, plan, asker, lambda _: None))


def test_a_folder_that_another_process_writes_to_is_refused_until_that_one_ends_however_it_does(write, tmp_path):
    folder, plan, asker = RunFolder(tmp_path / "run"), a_plan(write(*rows(3))), FakeAsker()
    command = [sys.executable, "-c", HOLDER, str(folder.path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InvalidInput, match="run is being written to by another"):
            carry(folder, plan, asker)
        assert asker.asked == []
    finally:
        other.kill()
        other.communicate()
    carry(folder, plan, asker)
    assert len(asker.asked) == 6


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_that_knows_no_locks_is_no_obstacle(write, tmp_path, monkeypatch, number):
    def without_locks(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", without_locks)
    asker = FakeAsker()
    carry(RunFolder(tmp_path / "run"), a_plan(write(*rows(1))), asker)
    assert len(asker.asked) == 2


def test_two_runs_at_once_in_one_process_are_no_exception(write, tmp_path):
    folder, plan = RunFolder(tmp_path / "run"), a_plan(write(*rows(3)))

    async def both():
        return await asyncio.gather(
            *(carry_out(folder, plan, FakeAsker(latency_s=0.01), lambda _: None) for _ in range(2)), return_exceptions=True
        )

    assert sorted(type(one).__name__ for one in asyncio.run(both())) == ["InvalidInput", "RunModel"]


@pytest.fixture
def largest_file():
    """`largest_file(bytes)` is how large any file of this process may grow from then on, which is how a full disk behaves."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_what_is_half_written_counts_for_nothing_in_a_report(write, tmp_path):
    folder = RunFolder(tmp_path / "run")
    carry(folder, a_plan(write(*rows(3))), FakeAsker())
    reported = write_run_report(folder, read_manifest(folder)).paths
    before = [path.read_bytes() for path in reported]
    line = folder.file(CELL).read_bytes().splitlines()[0]
    for length in (1, len(line) // 2, len(line)):
        with folder.file(CELL).open("ab") as file:
            whole = file.tell()
            file.write(line[:length])
        write_run_report(folder, read_manifest(folder))
        assert [path.read_bytes() for path in reported] == before
        os.truncate(folder.file(CELL), whole)


def test_a_page_of_a_run_that_goes_on_holds_what_its_index_names(write, tmp_path):
    folder = RunFolder(tmp_path / "run")
    carry(folder, a_plan(write(*rows(3))), FakeAsker())
    *begun, last = folder.file(CELL).read_bytes().splitlines(keepends=True)
    folder.file(CELL).write_bytes(b"".join(begun))
    lines = data_lines([Column("parallel", folder, (CELL,))], folder.questions())
    index = orjson.loads(next(lines))
    with folder.file(CELL).open("ab") as file:
        file.write(last)
    assert sum(line.startswith("T") for line in lines) == len(index["trajectories"]) == 2


def test_a_disk_that_fills_up_leaves_whole_lines_and_names_the_file(write, tmp_path, largest_file):
    folder, plan = RunFolder(tmp_path / "run"), a_plan(write(*rows(40)))
    files = [folder.file(replace(CELL, mode=mode)) for mode in plan.modes]

    class Filling(FakeAsker):
        async def ask(self, job, limits):
            if len(self.asked) == 20:
                largest_file(max(path.stat().st_size for path in files) + 64)
            return await super().ask(job, limits)

    with pytest.raises(OSError, match="File too large") as failure:
        carry(folder, plan, Filling())
    assert failure.value.filename in map(str, files)
    assert all(path.read_bytes().endswith(b"\n") for path in files)
    largest_file(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    again = FakeAsker()
    carry(folder, plan, again)
    assert {one.id for one in folder.trajectories(CELL)} == {f"q{number}" for number in range(40)}
    assert len(again.asked) < 80


@pytest.mark.parametrize("names", [("問題", "質問"), ("dev_1", "dev-1"), ("a b", "a-b")])
def test_sets_whose_names_are_the_same_in_file_names_do_not_take_each_others_trajectories(write, tmp_path, names):
    plans = [a_plan(write(*rows(3), name=f"{name}.jsonl")) for name in names]
    plan, asker = replace(plans[0], selected=plans[0].selected + plans[1].selected), FakeAsker()
    with pytest.raises(InvalidInput, match=f"{names[0]} · parallel and {names[1]} · parallel"):
        carry(RunFolder(tmp_path / "run"), plan, asker)
    assert asker.asked == []
    carry(RunFolder(tmp_path / "alone"), plans[0], asker)
    assert len(asker.asked) == 6


def test_models_whose_names_are_the_same_in_file_names_are_refused_too(write, tmp_path):
    plan = replace(a_plan(write(*rows(1))), models=("org/m", "org-m"))
    with pytest.raises(InvalidInput, match="org/m and set · parallel · org-m"):
        carry(RunFolder(tmp_path / "run"), plan, FakeAsker())


def test_a_run_goes_on_while_a_service_behind_the_gateway_cannot_say_what_it_is(write, tmp_path):
    folder, known = (
        RunFolder(tmp_path / "run"),
        StackModel(through="the gateway", model="m", version="1", index="f", cache="bypass"),
    )
    plan = replace(a_plan(write(*rows(2))), stack=known)
    first = carry(folder, plan, FakeAsker())
    for silent in ({"model": "", "version": ""}, {"index": ""}, {"model": "", "version": "", "index": ""}):
        again = FakeAsker()
        assert carry(folder, replace(plan, stack=known.model_copy(update=silent)), again) == first
        assert again.asked == []
    for other in ({"version": "2"}, {"index": "g"}, {"model": "n", "index": ""}, {"cache": "use"}, {"through": "straight"}):
        with pytest.raises(InvalidInput, match="with other stack"):
            carry(folder, replace(plan, stack=known.model_copy(update=other)), FakeAsker())
