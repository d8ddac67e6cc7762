"""The ray launcher against a stand-in for the Jobs API of a head, and where RAY_ADDRESS names one, a real cluster."""

import json
import os
import shlex
import subprocess
import time
import uuid

import httpx2
import pytest

from parallelsearch.schemas.training import ResourcesSpec, RunState
from trainer.launchers.interface import Job, LauncherUnavailable, LaunchRefused
from trainer.launchers.ray import RayLauncher


def a_job(tmp_path, *command):
    run_id = f"run-{uuid.uuid4().hex[:12]}"
    return Job(run_id, command or ("sleep", "60"), {"GREETING": "hello there"}, tmp_path, ResourcesSpec())


class Head:
    """The Jobs API, as far as it is used."""

    def __init__(self):
        self.jobs, self.sick = {}, None

    def __call__(self, request):
        if self.sick:
            return httpx2.Response(self.sick)
        parts = request.url.path.strip("/").split("/")
        name = parts[2] if len(parts) > 2 else ""
        if request.method == "POST" and not name:
            body = json.loads(request.content)
            if body["submission_id"] in self.jobs:
                return httpx2.Response(500, text="already exists")
            if " refuse" in body["entrypoint"]:
                return httpx2.Response(400, text="no such thing")
            self.jobs[body["submission_id"]] = {"status": "PENDING", "entrypoint": body["entrypoint"], **body["runtime_env"]}
            return httpx2.Response(200, json={"submission_id": body["submission_id"]})
        if name not in self.jobs:
            return httpx2.Response(404)
        if parts[3:] == ["stop"]:
            self.jobs[name]["status"] = "STOPPED"
            return httpx2.Response(200, json={"stopped": True})
        if parts[3:] == ["logs"]:
            return httpx2.Response(200, json={"logs": "one\ntwo\n"})
        return httpx2.Response(200, json=self.jobs[name])


@pytest.fixture
def head():
    return Head()


@pytest.fixture
def launcher(head):
    return RayLauncher("http://head:8265", transport=httpx2.MockTransport(head))


def test_a_job_is_submitted_once_with_its_environment(launcher, head, tmp_path):
    job = a_job(tmp_path, "python3", "-c", "a b")

    assert launcher.start(job) == launcher.start(job) == job.run_id
    assert shlex.split(head.jobs[job.run_id]["entrypoint"])[-3:] == ["python3", "-c", "a b"]
    assert head.jobs[job.run_id]["env_vars"] == {"GREETING": "hello there"}


def test_what_a_job_says_lies_with_its_files_where_the_trainer_reads_it(launcher, head, tmp_path):
    job = a_job(tmp_path, "sh", "-c", "echo 'out and'; echo err >&2; exit 3")
    launcher.start(job)
    ended = subprocess.run(shlex.split(head.jobs[job.run_id]["entrypoint"]), capture_output=True, check=False)

    assert ended.returncode == 3
    assert ended.stdout == job.log.read_bytes() == b"out and\nerr\n"


@pytest.mark.parametrize(
    ("said", "state"),
    [("PENDING", "queued"), ("RUNNING", "running"), ("SUCCEEDED", "succeeded"), ("FAILED", "failed"), ("STOPPED", "cancelled")],
)
def test_every_state_of_ray_has_its_own(launcher, head, tmp_path, said, state):
    job = a_job(tmp_path)
    launcher.start(job)
    head.jobs[job.run_id] |= {"status": said, "message": "the reason"}
    status = launcher.status(job.run_id, job)

    assert status.state == state
    assert status.detail == ("the reason" if said == "FAILED" else "")


def test_logs_go_on_from_where_they_were(launcher, tmp_path):
    job = a_job(tmp_path)
    launcher.start(job)

    assert launcher.logs(job.run_id, job, 0) == b"one\ntwo\n"
    assert launcher.logs(job.run_id, job, 4) == b"two\n"


def test_refusals_absence_and_faults_are_told_apart(launcher, head, tmp_path):
    with pytest.raises(LaunchRefused, match="no such thing"):
        launcher.start(a_job(tmp_path, "refuse"))
    assert launcher.status("x", a_job(tmp_path)).state is RunState.FAILED


@pytest.mark.parametrize("status", [401, 500, 503])
def test_a_head_that_is_not_well_says_nothing_about_a_run(launcher, head, tmp_path, status):
    job = a_job(tmp_path)
    launcher.start(job)
    head.sick = status
    for ask in (launcher.status, launcher.cancel, lambda handle, run: launcher.logs(handle, run, 0)):
        with pytest.raises(LauncherUnavailable, match=str(status)):
            ask(job.run_id, job)


@pytest.fixture
def cluster():
    address = os.environ.get("PARALLELSEARCH_RAY_ADDRESS")
    if not address:
        pytest.skip("SKIPPED, NOT PASSED: set PARALLELSEARCH_RAY_ADDRESS to the dashboard of a running Ray cluster")
    return RayLauncher(address)


def wait(cluster, job, *states):
    end = time.monotonic() + 60
    while (status := cluster.status(job.run_id, job)).state not in states:
        assert time.monotonic() < end, status
        time.sleep(0.2)
    return status


def test_a_real_cluster_runs_a_job_and_keeps_its_log(cluster, tmp_path):
    job = a_job(tmp_path, "sh", "-c", "echo $GREETING")
    cluster.start(job)
    cluster.start(job)
    wait(cluster, job, RunState.SUCCEEDED)

    assert b"hello there" in cluster.logs(job.run_id, job, 0)


def test_a_real_cluster_fails_and_stops_jobs(cluster, tmp_path):
    failing, endless = a_job(tmp_path, "sh", "-c", "exit 3"), a_job(tmp_path)
    for job in (failing, endless):
        cluster.start(job)
    assert wait(cluster, failing, RunState.FAILED).detail
    wait(cluster, endless, RunState.RUNNING)
    cluster.cancel(endless.run_id, endless)
    wait(cluster, endless, RunState.CANCELLED)
