"""How the local launcher knows the processes of a run again, whatever becomes of the machine's clock and of process numbers; and
which GPUs it sees."""

import os
import subprocess

import psutil
import pytest

from parallelsearch.schemas.training import ResourcesSpec, RunState
from parallelsearch.supervisor.groups import MARK
from trainer.launchers.interface import Job
from trainer.launchers.local import RUN_ID, VISIBLE, LocalLauncher, visible_gpus


@pytest.fixture
def launcher():
    return LocalLauncher(gpus=lambda: [f"gpu-of-{os.getpid()}"], grace_s=0.2)


@pytest.fixture
def job(tmp_path):
    """A run that starts a further process before its own work."""
    return Job(f"run-{os.getpid()}", ("/bin/sh", "-c", "sleep 60 & sleep 61"), {}, tmp_path, ResourcesSpec())


@pytest.mark.parametrize("by_s", [-86_400, -1, 1, 86_400])
def test_a_run_outlives_a_change_of_the_machines_clock(launcher, job, monkeypatch, by_s):
    handle = launcher.start(job)
    boot = psutil._pslinux.boot_time
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot() + by_s)

    assert launcher.status(handle, job).state is RunState.RUNNING
    assert launcher.start(job) == handle
    launcher.cancel(handle, job)
    assert launcher.status(handle, job).state is RunState.FAILED


def test_a_run_whose_start_was_not_recorded_is_found_by_its_first_process(launcher, job, monkeypatch):
    """Numbers of processes start again at the bottom, so that those of children may be lower."""
    handle = launcher.start(job)
    everyone = psutil.process_iter
    monkeypatch.setattr(psutil, "process_iter", lambda: reversed(list(everyone())))

    assert launcher.start(job) == handle
    launcher.cancel(handle, job)


@pytest.mark.parametrize("environment", [{}, {RUN_ID: "run-of-another"}])
def test_a_process_that_took_over_the_number_of_a_run_is_not_it(launcher, job, environment):
    with subprocess.Popen(["sleep", "60"], env=environment) as other:
        try:
            assert launcher.status(str(other.pid), job).state is RunState.FAILED
            launcher.cancel(str(other.pid), job)
            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (None, ("0", "2", "10")),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("2,0", ("2", "0")),
        ("2, 0", ("2", "0")),
        ("2,-1,0", ("2",)),
        ("2,,0", ("2",)),
        ("GPU-8932f937-d72c,MIG-GPU-8932/1/0", ("GPU-8932f937-d72c", "MIG-GPU-8932/1/0")),
    ],
)
def test_gpus_are_those_that_cuda_would_see(tmp_path, monkeypatch, given, seen):
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.delenv(VISIBLE, raising=False)
    if given is not None:
        monkeypatch.setenv(VISIBLE, given)

    assert visible_gpus(tmp_path) == seen


def test_nothing_makes_gpus_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "0")
    assert visible_gpus(tmp_path) == ()


def test_a_run_is_not_marked_as_ending_with_its_trainer(launcher, job, monkeypatch):
    monkeypatch.setenv(MARK, "trainer-1")
    handle = launcher.start(job)
    environment = psutil.Process(int(handle)).environ()
    launcher.cancel(handle, job)
    assert (environment[RUN_ID], MARK in environment) == (job.run_id, False)
