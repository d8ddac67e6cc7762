"""What the service makes of launchers that fail, are not there any more, or do not know what became of a run."""

import pytest

from parallelsearch.schemas.training import LauncherName, RunState
from trainer.launchers.interface import LauncherUnavailable, Status

RUNS = "/v1/training-runs"


class Cluster:
    """A cluster that can be out of reach; a job of it runs until it is ended."""

    def __init__(self):
        self.away, self.ended, self.broken = False, [], set()

    def check(self, resources):
        pass

    def start(self, job):
        return job.run_id

    def _reach(self, run):
        if self.away:
            raise LauncherUnavailable("The cluster cannot be reached.")
        if run.run_id in self.broken:
            raise KeyError("nobody expected this")

    def status(self, handle, run):
        self._reach(run)
        return Status(RunState.FAILED, "Gone.") if run.run_id in self.ended else Status(RunState.RUNNING)

    def cancel(self, handle, run):
        self._reach(run)
        self.ended.append(run.run_id)

    def logs(self, handle, run, offset):
        return b""


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
