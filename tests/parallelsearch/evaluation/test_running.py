import asyncio
import json
from dataclasses import replace

import pytest
from evaluation_fakes import FakeAsker, a_plan, rows

from parallelsearch.errors import InvalidInput, UpstreamUnavailable
from parallelsearch.evaluation.plan import Cell, Limits
from parallelsearch.evaluation.progress import Progress, duration
from parallelsearch.evaluation.session import carry_out
from parallelsearch.evaluation.store import RunFolder
from parallelsearch.rollout.types import Mode, StopReason
from parallelsearch.schemas.answers import ScoredTrajectoryModel


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def carry(folder, plan, asker):
    lines = []
    asyncio.run(carry_out(folder, plan, asker, lines.append))
    return lines


def content(folder):
    return {path.name: sorted(path.read_text().splitlines()) for path in (folder.path / "trajectories").iterdir()}


def test_every_question_is_asked_once_in_every_mode_under_the_limit(write, folder):
    asker = FakeAsker(latency_s=0.001)
    lines = carry(folder, a_plan(write(*rows(20)), concurrency=6), asker)

    assert len(asker.asked) == len(set(asker.asked)) == 40
    assert asker.most_in_flight == 6
    assert lines[0] == "40 rollouts"
    assert lines[-1].startswith("40/40 (100%)")


def test_a_file_of_trajectories_is_what_the_reward_command_reads(write, folder):
    carry(folder, a_plan(write(*rows(2))), FakeAsker())

    lines = folder.file(Cell("set", Mode.PARALLEL)).read_bytes().splitlines()
    models = [ScoredTrajectoryModel.model_validate_json(line) for line in lines]
    assert {model.id for model in models} == {"q0", "q1"}
    assert models[0].golden_answers == ["Ann"]


def test_a_run_that_broke_off_goes_on_and_ends_up_the_same(write, folder, tmp_path):
    plan = a_plan(write(*rows(30)))
    undisturbed = RunFolder(tmp_path / "undisturbed")
    carry(undisturbed, plan, FakeAsker())

    class Dying(FakeAsker):
        async def ask(self, job, limits):
            if len(self.asked) >= 25:
                raise UpstreamUnavailable("gone")
            return await super().ask(job, limits)

    dying, second = Dying(), FakeAsker()
    with pytest.raises(UpstreamUnavailable, match="gone"):
        carry(folder, plan, dying)
    with folder.file(Cell("set", Mode.PARALLEL)).open("ab") as file:
        file.write(b'{"id": "q29", "half')
    lines = carry(folder, replace(plan, started_at="2026-02-02T00:00:00Z", concurrency=1), second)

    assert content(folder) == content(undisturbed)
    assert folder.manifest.read_text() == undisturbed.manifest.read_text()
    assert "finished before" in lines[0]
    assert len(second.asked) <= 60 - 25 + 4


def test_a_run_that_is_complete_asks_nothing(write, folder):
    plan = a_plan(write(*rows(3)))
    carry(folder, plan, FakeAsker())
    again = FakeAsker()
    carry(folder, plan, again)

    assert again.asked == []


def test_another_run_in_the_same_folder_is_refused_and_the_difference_named(write, folder):
    carry(folder, a_plan(write(*rows(3))), FakeAsker())

    with pytest.raises(InvalidInput, match="limits"):
        carry(folder, a_plan(write(*rows(3)), limits=Limits(top_k=5)), FakeAsker())
    with pytest.raises(InvalidInput, match="sets"):
        carry(folder, a_plan(write(*rows(4))), FakeAsker())


def test_a_platform_that_only_fails_stops_the_run_and_its_questions_are_asked_again(write, folder):
    plan = a_plan(write(*rows(40)), concurrency=1)
    with pytest.raises(UpstreamUnavailable, match="16 rollouts in a row"):
        carry(folder, plan, FakeAsker(fails=lambda _: StopReason.POLICY_FAILED))
    healed = FakeAsker()
    carry(folder, plan, healed)

    assert len(healed.asked) == 80


def test_a_failure_here_and_there_is_a_record(write, folder):
    def fails(job):
        return StopReason.RETRIEVAL_FAILED if job.question.id == "q3" else None

    carry(folder, a_plan(write(*rows(8))), FakeAsker(fails=fails))

    stops = [one.stop_reason for one in folder.trajectories(Cell("set", Mode.PARALLEL))]
    assert stops.count(StopReason.RETRIEVAL_FAILED) == 1


def test_a_broken_line_in_the_middle_is_named(write, folder):
    plan = a_plan(write(*rows(3)))
    carry(folder, plan, FakeAsker())
    path = folder.file(Cell("set", Mode.PARALLEL))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:40], lines[2]]) + "\n")

    with pytest.raises(InvalidInput, match=r"set__parallel\.jsonl:2"):
        carry(folder, plan, FakeAsker())


def test_two_sets_of_one_name_are_refused(write, tmp_path, folder):
    plan = a_plan(write(*rows(3)))

    with pytest.raises(InvalidInput, match="Two files are called set"):
        carry(folder, replace(plan, selected=plan.selected * 2), FakeAsker())


def test_cells_of_different_sets_modes_and_models_have_different_files():
    names = [Cell("a", Mode.PARALLEL), Cell("a", Mode.SEQUENTIAL), Cell("a", Mode.PARALLEL, "org/m"), Cell("b", Mode.PARALLEL)]

    assert len({cell.slug for cell in names}) == 4
    assert all("/" not in cell.slug for cell in names)


def test_progress_says_rate_and_remaining_time(write, folder):
    now, said = [0.0], []
    progress = Progress(100, 20, lambda: now[0], said.append)
    plan = a_plan(write(*rows(1)))
    (job, *_) = plan.jobs
    trajectory = asyncio.run(FakeAsker().ask(job, plan.limits))
    progress.start()
    for _ in range(40):
        now[0] += 0.5
        progress.finished(job, trajectory)

    assert said[0] == "100 rollouts, 20 of them finished before"
    assert said[-1] == "60/100 (60%), 2.00/s, 20 s left; exact match so far 100%"
    assert len(said) == 5
    assert duration(3_725) == "1 h 2 min"


def test_the_manifest_says_what_a_reader_must_know(write, folder):
    path = write(*rows(3), {"id": "broken"})
    carry(folder, a_plan(path), FakeAsker())
    manifest = json.loads(folder.manifest.read_text())

    assert manifest["sets"][0]["rows"] == 4
    assert "set.jsonl:4" in manifest["sets"][0]["faults"][0]
    assert manifest["limits"]["top_k"] == 3
    assert manifest["commit"] == "c0ffee"
