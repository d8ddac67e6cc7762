"""A full disk below a trainer that goes on: what it says, and that nothing of what it took is lost or told wrongly."""

import os
from contextlib import suppress

import pytest
from training_platform import until

RUNS = "/v1/training-runs"


class Disk:
    def __init__(self, folder):
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave=0):
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(bytes(4_096)):
                pass
        os.truncate(self._ballast, self._ballast.stat().st_size - leave)

    def clear(self):
        self._ballast.unlink()


@pytest.fixture
def disk(small_disk):
    return Disk(small_disk)


def waits_for(path):
    return f"while [ ! -e {path} ]; do sleep 0.05; done"


@pytest.mark.parametrize(("ends", "state"), [("exit 0", "succeeded"), ("exit 7", "failed")])
def test_a_run_that_ends_while_the_disk_is_full_is_told_as_it_ended_once_there_is_room(start_trainer, platform, disk, ends, state):
    platform.does(f"echo begun; {waits_for(platform.folder / 'go')}; echo lost; {ends}")
    trainer = start_trainer(runs_dir=disk.folder / "runs")
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    until(lambda: trainer.get(f"{RUNS}/{run_id}/logs").text)
    disk.fill()
    (platform.folder / "go").touch()
    exit_code = disk.folder / "runs" / run_id / "exit_code"
    until(exit_code.exists)

    assert trainer.run(run_id)["state"] in {"running", state}
    disk.clear()
    assert f"exit code {ends.split()[1]}" in trainer.wait(run_id, state)["detail"] or state == "succeeded"


def test_what_cannot_be_recorded_is_refused_in_a_sentence_and_taken_when_there_is_room(start_trainer, platform, disk):
    platform.does("sleep 60")
    trainer = start_trainer(runs_dir=disk.folder / "runs")
    spec = platform.spec()
    run_id = trainer.submit(spec, **{"idempotency-key": "one"}).json()["id"]
    waiting = trainer.submit(spec, **{"idempotency-key": "two"}).json()["id"]
    trainer.wait(run_id, "running")
    disk.fill()
    refused = [trainer.submit(spec, **{"idempotency-key": f"{number}"}) for number in range(300)]
    refused = [answer for answer in refused if answer.status_code != 201]

    assert {answer.status_code for answer in refused} == {503}
    assert "disk is full" in refused[0].json()["detail"] and "TRAINER_RUNS_DIR" in refused[0].json()["detail"]
    until(lambda: trainer.get("/readyz").status_code == 503)
    assert "disk is full" in trainer.get("/readyz").json()["checks"]["record"]
    assert trainer.run(run_id)["state"] == "running"
    assert trainer.delete(f"{RUNS}/{waiting}").status_code == 503

    disk.clear()
    until(lambda: trainer.get("/readyz").status_code == 200)
    assert trainer.submit(spec, **{"idempotency-key": "one"}).json()["id"] == run_id
    assert trainer.delete(f"{RUNS}/{waiting}").json()["state"] == "cancelled"
    assert trainer.delete(f"{RUNS}/{run_id}").json()["state"] == "cancelled"


@pytest.mark.parametrize("gpus", [1, 0], ids=["that runs", "whose start was tried"])
def test_a_run_that_is_cancelled_while_that_cannot_be_recorded_is_told_as_cancelled_once_there_is_room(
    start_trainer, platform, disk, gpus
):
    platform.does("sleep 60")
    trainer = start_trainer(runs_dir=disk.folder / "runs", max_running=2)
    runs = [trainer.submit(platform.spec()).json()["id"] for _ in range(2)]
    until(lambda: trainer.run(runs[1])["detail"].startswith("1 GPUs are needed"))
    cancelled = runs[0] if gpus else runs[1]
    disk.fill()
    until(lambda: trainer.get("/readyz").status_code == 503)

    assert trainer.delete(f"{RUNS}/{cancelled}").status_code == 503
    assert trainer.run(cancelled)["state"] in {"queued", "running"}
    disk.clear()
    run = trainer.wait(cancelled, "cancelled", "failed")
    assert (run["state"], run["detail"]) == ("cancelled", "Cancelled by an administrator.")


def test_every_run_that_was_taken_is_there_whenever_the_disk_filled(start_trainer, platform, disk):
    platform.does("sleep 60")
    trainer, taken = start_trainer(runs_dir=disk.folder / "runs"), []
    disk.fill(leave=300_000)
    while (answer := trainer.submit(platform.spec())).status_code == 201:
        taken.append(answer.json()["id"])
    disk.clear()
    listed = [run["id"] for run in trainer.get(RUNS, params={"limit": 1000}).json()["runs"]]

    assert answer.status_code == 503
    assert listed == taken[::-1] != []
