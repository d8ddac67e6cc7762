"""What the service makes of launchers that fail, are not there any more, or do not know what became of a run."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from rollout_records import RECORD
from training_platform import until

from parallelsearch.schemas.training import LauncherName, RunState
from trainer.launchers.interface import LauncherUnavailable, Status, read_log

RUNS = "/v1/training-runs"


class Cluster:
    """A cluster that can be out of reach; a job of it runs until it is ended."""

    def __init__(self):
        self.away, self.ended, self.broken = False, [], set()
        self.taken, self.unheard, self.slow_s, self.waiting = [], False, 0.0, ""
        self.read_from, self.keeps_logs = [], False

    def check(self, job):
        pass

    def start(self, job):
        time.sleep(self.slow_s)
        self._reach(job)
        self.taken.append(job.run_id)
        if self.unheard:
            raise LauncherUnavailable("The cluster's answer did not come.")
        return job.run_id

    def _reach(self, run):
        if self.away:
            raise LauncherUnavailable("The cluster cannot be reached.")
        if run.run_id in self.broken:
            raise KeyError("nobody expected this")

    def status(self, handle, run):
        self._reach(run)
        return (
            Status(RunState.FAILED, "Gone.")
            if run.run_id in self.ended
            else Status(RunState.QUEUED if self.waiting else RunState.RUNNING, self.waiting)
        )

    def cancel(self, handle, run):
        self._reach(run)
        self.ended.append(run.run_id)

    def logs(self, handle, run, offset):
        self.read_from.append(offset)
        if self.keeps_logs:
            self._reach(run)
        return read_log(run, offset)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def trainer(start_trainer, cluster):
    return start_trainer(launchers={LauncherName.RAY: cluster})


def test_a_run_that_cannot_be_ended_now_is_not_called_ended_and_can_be_ended_later(trainer, cluster, platform):
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(run_id, "running")
    cluster.away = True
    refused = trainer.delete(f"{RUNS}/{run_id}")

    assert refused.status_code == 503
    assert "cannot be reached" in refused.json()["detail"]
    assert trainer.run(run_id)["state"] == "running"
    cluster.away = False
    assert trainer.delete(f"{RUNS}/{run_id}").json()["state"] == "cancelled"
    assert cluster.ended == [run_id]


def test_a_cancelled_run_is_not_called_failed_by_the_watch(trainer, cluster, platform):
    runs = [trainer.submit(platform.spec(launcher="ray")).json()["id"] for _ in range(10)]
    for run_id in runs:
        trainer.wait(run_id, "running")

    assert [trainer.delete(f"{RUNS}/{run_id}").json()["state"] for run_id in runs] == ["cancelled"] * 10


def test_a_fault_with_one_run_holds_up_no_other(trainer, cluster, platform):
    odd = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(odd, "running")
    cluster.broken.add(odd)
    other = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(other, "running")
    cluster.ended.append(other)

    assert trainer.wait(other, "failed")["detail"] == "Gone."
    assert trainer.run(odd)["state"] == "running"


def test_a_trainer_without_the_launcher_of_a_run_leaves_it_as_it_is(start_trainer, cluster, platform):
    with start_trainer(launchers={LauncherName.RAY: cluster}) as trainer:
        run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
        trainer.wait(run_id, "running")
    with start_trainer() as without:
        without.wait(without.submit(platform.spec()).json()["id"], "succeeded")
        assert without.run(run_id)["state"] == "running"
        assert "not set up for ray" in without.delete(f"{RUNS}/{run_id}").json()["detail"]
    again = start_trainer(launchers={LauncherName.RAY: cluster})

    assert again.delete(f"{RUNS}/{run_id}").json()["state"] == "cancelled"


def test_a_run_that_was_taken_without_our_hearing_of_it_is_ended_with_the_order(trainer, cluster, platform):
    cluster.unheard = True
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    wait_for_detail(trainer, run_id, "did not come")

    assert trainer.run(run_id)["state"] == "queued"
    assert trainer.delete(f"{RUNS}/{run_id}").json()["state"] == "cancelled"
    assert set(cluster.taken) == set(cluster.ended) == {run_id}


def test_what_a_cancelled_run_left_half_written_is_removed(trainer, cluster, platform):
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(run_id, "running")
    torn = platform.folder / "runs" / run_id / "checkpoints" / "global_step20_hf"
    torn.mkdir(parents=True)
    trainer.delete(f"{RUNS}/{run_id}")

    assert not torn.exists()


def test_a_run_that_is_cancelled_while_it_is_started_is_ended(trainer, cluster, platform):
    cluster.slow_s = 0.4
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    until((platform.folder / "runs" / run_id).exists)
    ended = trainer.delete(f"{RUNS}/{run_id}").json()

    assert ended["state"] == "cancelled"
    assert cluster.taken == cluster.ended == [run_id]


def test_what_a_run_waits_for_is_said_and_taken_back(trainer, cluster, platform):
    cluster.away = True
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    assert wait_for_detail(trainer, run_id, "cannot be reached")["state"] == "queued"
    cluster.away, cluster.waiting = False, "It waits for GPUs."
    assert wait_for_detail(trainer, run_id, "waits for GPUs")["state"] == "running"
    cluster.away = True
    wait_for_detail(trainer, run_id, "cannot be reached")
    cluster.away, cluster.waiting = False, ""
    wait_for_detail(trainer, run_id, "")


def test_the_questions_of_a_run_that_waits_are_dealt_once(trainer, cluster, platform):
    cluster.away = True
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    wait_for_detail(trainer, run_id, "cannot be reached")
    prompts = platform.folder / "runs" / run_id / "prompts.jsonl"
    dealt = prompts.stat()
    time.sleep(0.3)
    cluster.away = False
    trainer.wait(run_id, "running")

    assert (prompts.stat().st_ino, prompts.stat().st_mtime_ns) == (dealt.st_ino, dealt.st_mtime_ns)


def wait_for_detail(trainer, run_id, words):
    def said():
        run = trainer.run(run_id)
        return run if words in run["detail"] and bool(words) == bool(run["detail"]) else None

    return until(said)


def test_a_sick_run_that_cannot_be_stopped_now_is_stopped_later(trainer, cluster, platform):
    small = {"prompts_per_step": 1, "samples_per_prompt": 2, "micro_batch": 2, "steps": 4}
    health = {"window_steps": 1, "action": "stop"}
    run_id = trainer.submit(platform.spec(launcher="ray", **small, health=health)).json()["id"]
    trainer.wait(run_id, "running")
    cluster.away = True
    rows = [{**RECORD, "time": float(at), "searches": 1 - at // 2} for at in range(4)]
    facts = platform.folder / "runs" / run_id / "rollouts" / "facts-a-1.jsonl"
    facts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    until(lambda: trainer.run(run_id)["flags"])
    assert trainer.run(run_id)["state"] == "running"
    cluster.away = False

    assert "searches collapse" in trainer.wait(run_id, "failed")["detail"]
    assert cluster.ended == [run_id]


def test_a_log_that_cannot_be_read_now_is_a_problem_and_not_an_answer_that_breaks_off(trainer, cluster, platform):
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(run_id, "running")
    cluster.keeps_logs, cluster.away = True, True
    for follow in (False, True):
        answer = trainer.get(f"{RUNS}/{run_id}/logs", params={"follow": follow})
        assert answer.status_code == 503
        assert "cannot be reached" in answer.json()["detail"]


def test_a_log_that_is_followed_goes_on_when_the_cluster_is_back(trainer, cluster, platform):
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(run_id, "running")
    log = platform.folder / "runs" / run_id / "output.log"
    log.write_text("one\n")
    cluster.keeps_logs = True
    with ThreadPoolExecutor(1) as reader:
        followed = reader.submit(lambda: trainer.get(f"{RUNS}/{run_id}/logs", params={"follow": True}).text)
        until(lambda: cluster.read_from.count(4))
        cluster.away = True
        asked = len(cluster.read_from)
        until(lambda: len(cluster.read_from) > asked + 1)
        log.write_text("one\ntwo\n")
        cluster.away = False
        cluster.ended.append(run_id)
        assert followed.result(timeout=30) == "one\ntwo\n"


def test_the_log_of_a_run_whose_launcher_is_not_set_up_any_more_is_read_from_its_files(start_trainer, cluster, platform):
    with start_trainer(launchers={LauncherName.RAY: cluster}) as trainer:
        run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
        trainer.wait(run_id, "running")
        (platform.folder / "runs" / run_id / "output.log").write_text("one\n")

    assert start_trainer().get(f"{RUNS}/{run_id}/logs").text == "one\n"


def test_of_a_huge_log_only_the_end_is_read_for_its_last_lines(trainer, cluster, platform):
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    trainer.wait(run_id, "running")
    with (platform.folder / "runs" / run_id / "output.log").open("w") as log:
        log.writelines(f"line {number}\n" for number in range(200_000))
    cluster.ended.append(run_id)
    run = trainer.wait(run_id, "failed")

    assert run["last_log_lines"] == [f"line {number}" for number in range(199_950, 200_000)]
    assert min(cluster.read_from) > 1_000_000


def test_without_openrlhfs_environment_a_local_run_is_refused_at_once(start_trainer, platform):
    trainer = start_trainer()
    platform.script.unlink()
    refused = trainer.submit(platform.spec())

    assert refused.status_code == 422
    assert "make OpenRLHF's environment first" in refused.json()["detail"]
    assert trainer.get(RUNS).json()["runs"] == []
