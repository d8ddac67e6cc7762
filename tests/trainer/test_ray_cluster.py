"""The ray launcher, and a trainer over it, against a real one-node Ray (make test-ray)."""

import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from ray_node import PROGRAM, ray_node
from service_stand_ins import free_port
from training_platform import until

from parallelsearch.schemas.training import LauncherName, ResourcesSpec, RunState
from trainer.launchers.interface import Job
from trainer.launchers.local import LocalLauncher
from trainer.launchers.ray import RayLauncher
from trainer.worker_setup import first_of_all

pytestmark = pytest.mark.ray
RUNS = "/v1/training-runs"
SENDERS = Path(__file__).resolve().parents[1] / "support" / "tokenizer_senders.py"


@pytest.fixture(scope="module")
def address():
    with ray_node() as found:
        yield found


@pytest.fixture
def launcher(address):
    return RayLauncher(address)


@pytest.fixture
def over_ray(start_trainer, launcher):
    return lambda: start_trainer(launchers={LauncherName.RAY: launcher})


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


def a_job(tmp_path, script):
    run_id = f"run-{uuid.uuid4().hex[:12]}"
    return Job(run_id, ("sh", "-c", script), {"GREETING": "hello there", "MARK": run_id}, tmp_path / run_id, ResourcesSpec())


def wait(launcher, job, *states, handle=None):
    end = time.monotonic() + 60
    while (status := launcher.status(handle or job.run_id, job)).state not in states:
        assert time.monotonic() < end, (status, launcher.logs(handle or job.run_id, job, 0))
        time.sleep(0.2)
    return status


def processes_of(command):
    """Those that run a command which is told apart by a name in it."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(command in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.pid != os.getpid()]


def test_a_job_is_started_once_has_its_environment_and_leaves_its_log(launcher, tmp_path):
    job = a_job(tmp_path, "echo $GREETING; echo and more >&2")
    assert launcher.start(job) == launcher.start(job) == job.run_id
    wait(launcher, job, RunState.SUCCEEDED)

    assert launcher.logs(job.run_id, job, 0) == b"hello there\nand more\n"
    assert launcher.logs(job.run_id, job, 12) == b"and more\n"


def test_a_job_that_fails_says_its_exit_code_and_not_its_whole_log(launcher, tmp_path):
    job = a_job(tmp_path, "seq 2000; exit 3")
    launcher.start(job)

    assert wait(launcher, job, RunState.FAILED).detail.endswith("exit code 3")


def test_a_stopped_job_leaves_no_process_even_if_they_ignore_the_order(launcher, tmp_path):
    mark = f"mark-{uuid.uuid4().hex}"
    job = a_job(tmp_path, f"trap '' TERM; sh -c 'sleep 120; : {mark}' & sh -c 'sleep 120; : {mark}'")
    launcher.start(job)
    wait(launcher, job, RunState.RUNNING)
    until(lambda: processes_of(mark))
    launcher.cancel(job.run_id, job)
    wait(launcher, job, RunState.CANCELLED)
    launcher.cancel(job.run_id, job)

    assert processes_of(mark) == []


def test_a_job_that_was_never_taken_can_be_ended_and_is_failed(launcher, tmp_path):
    job = a_job(tmp_path, "true")
    launcher.cancel(job.run_id, job)

    assert "does not know" in launcher.status(job.run_id, job).detail


def test_a_run_is_queued_running_and_succeeded_and_its_log_followed(over_ray, platform, gate):
    platform.does(f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two")
    trainer = over_ray()
    answer = trainer.submit(platform.spec(launcher="ray"))
    run_id = answer.json()["id"]
    assert answer.json()["state"] == "queued"
    trainer.wait(run_id, "running", timeout_s=60)
    until(lambda: trainer.get(f"{RUNS}/{run_id}/logs").text == "one\n")
    gate.touch()

    assert trainer.get(f"{RUNS}/{run_id}/logs", params={"follow": True}).text == "one\ntwo\n"
    run = trainer.wait(run_id, "succeeded", timeout_s=60)
    assert run["detail"] == ""


def test_a_failed_run_has_its_last_lines(over_ray, platform):
    platform.does("seq 80; echo 'out of memory' >&2; exit 3")
    trainer = over_ray()
    run = trainer.wait(trainer.submit(platform.spec(launcher="ray")).json()["id"], "failed", timeout_s=60)

    assert run["detail"].endswith("exit code 3")
    assert run["last_log_lines"][-2:] == ["80", "out of memory"]
    assert len(run["last_log_lines"]) == 50


def test_a_run_whose_worker_dies_is_failed(over_ray, platform):
    mark = f"mark-{uuid.uuid4().hex}"
    platform.does(f"echo begun; sh -c 'sleep 30; : {mark}'")
    trainer = over_ray()
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    until(lambda: processes_of(mark))
    # What it was doing goes on, with the run's output in its hands.
    for process in processes_of(mark):
        process.kill()
    run = trainer.wait(run_id, "failed", timeout_s=60)

    assert "exit code 137" in run["detail"]
    assert run["last_log_lines"][0] == "begun"


def test_cancelling_a_run_ends_its_processes(over_ray, platform):
    mark = f"mark-{uuid.uuid4().hex}"
    platform.does(f"sh -c 'sleep 120; : {mark}'")
    trainer = over_ray()
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    until(lambda: processes_of(mark))

    assert trainer.delete(f"{RUNS}/{run_id}").json()["state"] == "cancelled"
    until(lambda: not processes_of(mark))


def test_a_restarted_trainer_finds_its_run_again(over_ray, platform, gate):
    platform.does(f"while [ ! -e {gate} ]; do sleep 0.05; done; echo done")
    with over_ray() as first:
        run_id = first.submit(platform.spec(launcher="ray")).json()["id"]
        first.wait(run_id, "running", timeout_s=60)
    again = over_ray()
    assert again.run(run_id)["state"] == "running"
    gate.touch()

    again.wait(run_id, "succeeded", timeout_s=60)
    assert again.get(f"{RUNS}/{run_id}/logs").text == "done\n"


def test_a_run_for_a_cluster_that_is_not_there_waits_and_says_so(start_trainer, platform):
    trainer = start_trainer(launchers={LauncherName.RAY: RayLauncher(f"http://127.0.0.1:{free_port()}")})
    run_id = trainer.submit(platform.spec(launcher="ray")).json()["id"]
    until(lambda: trainer.run(run_id)["detail"])

    assert trainer.run(run_id)["state"] == "queued"
    assert "The Ray cluster cannot be reached" in trainer.run(run_id)["detail"]


def with_tokenizers(tmp_path):
    """A run's environment, in which Ray's processes find what a training host has besides."""
    import tokenizers

    import trainer

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "tokenizers").symlink_to(Path(tokenizers.__file__).parent)
    return {"PYTHONPATH": f"{Path(trainer.__file__).parents[1]}:{tmp_path / 'site'}", **first_of_all(7)}


@pytest.mark.parametrize("where", ["cluster", "a Ray of the run's own"])
def test_a_tokenizer_handed_over_for_each_question_is_unpacked_once(launcher, tmp_path, where):
    job = a_job(tmp_path, f"{PROGRAM.with_name('python')} {SENDERS} 20")
    job = replace(job, environment=job.environment | with_tokenizers(tmp_path))
    if where != "cluster":
        launcher = LocalLauncher(gpus=lambda: ["0"])
    handle = launcher.start(job)
    wait(launcher, job, RunState.SUCCEEDED, handle=handle)

    assert b"20 copies, 1 tokenizers, ids [(3,)]" in launcher.logs(handle, job, 0)
