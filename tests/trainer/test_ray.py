"""The ray launcher against a stand-in for the Jobs API of a head; test_ray_cluster.py has a real one."""

import json
import shlex
import subprocess
import time
import uuid

import httpx2
import pytest

from parallelsearch.schemas.training import ResourcesSpec, RunState
from trainer.launchers.interface import Job, LauncherUnavailable, LaunchRefused, exit_code_file, with_log
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
            if " no-agent" in body["entrypoint"]:
                return httpx2.Response(500, text="No available agent to submit job, please try again later.")
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


def test_what_a_command_left_behind_holds_up_no_run(tmp_path):
    job = a_job(tmp_path, "sh", "-c", "echo begun; sleep 30 & exit 137")
    began = time.monotonic()
    ended = subprocess.run(with_log(job), capture_output=True, check=False)

    assert (ended.returncode, ended.stdout, int(exit_code_file(job).read_text())) == (137, b"begun\n", 137)
    assert time.monotonic() - began < 15


def test_a_command_that_says_much_loses_nothing_of_it(tmp_path):
    job = a_job(tmp_path, "sh", "-c", "seq 300000")
    ended = subprocess.run(with_log(job), capture_output=True, check=True)

    assert ended.stdout == job.log.read_bytes()
    assert job.log.read_bytes().endswith(b"\n300000\n")


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
    assert status.detail == ("the reason" if said in {"FAILED", "PENDING"} else "")


def test_the_log_that_ray_adds_to_its_message_is_not_said_twice(launcher, head, tmp_path):
    job = a_job(tmp_path)
    launcher.start(job)
    said = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n" + "x" * 20_000
    head.jobs[job.run_id] |= {"status": "FAILED", "message": said}

    assert launcher.status(job.run_id, job).detail == "Job entrypoint command failed with exit code 1"
    head.jobs[job.run_id] |= {"message": "y" * 20_000}
    assert len(launcher.status(job.run_id, job).detail) == 1_000


def test_logs_are_read_from_the_runs_files_and_go_on_from_where_they_were(launcher, tmp_path):
    job = a_job(tmp_path)
    launcher.start(job)

    assert launcher.logs(job.run_id, job, 0) == b""
    job.log.write_bytes(b"three\nfour\n")
    assert launcher.logs(job.run_id, job, 0) == b"three\nfour\n"
    assert launcher.logs(job.run_id, job, 6) == b"four\n"


def test_of_a_job_that_failed_before_its_command_ray_has_the_log(launcher, head, tmp_path):
    job = a_job(tmp_path)
    launcher.start(job)
    head.jobs[job.run_id]["status"] = "FAILED"

    assert launcher.logs(job.run_id, job, 0) == b"one\ntwo\n"
    assert launcher.logs(job.run_id, job, 4) == b"two\n"


@pytest.mark.parametrize(("code", "state"), [("0\n", "succeeded"), ("3\n", "failed")])
def test_a_run_that_ended_before_its_head_was_started_anew_is_known_by_its_exit_code(launcher, head, tmp_path, code, state):
    job = a_job(tmp_path)
    launcher.start(job)
    head.jobs.clear()

    assert "does not know" in launcher.status(job.run_id, job).detail
    exit_code_file(job).write_text(code)
    assert launcher.status(job.run_id, job).state == state


def test_refusals_absence_and_faults_are_told_apart(launcher, head, tmp_path):
    with pytest.raises(LaunchRefused, match="no such thing"):
        launcher.start(a_job(tmp_path, "refuse"))
    with pytest.raises(LauncherUnavailable, match="try again later"):
        launcher.start(a_job(tmp_path, "no-agent"))
    assert launcher.status("x", a_job(tmp_path)).state is RunState.FAILED


@pytest.mark.parametrize("status", [401, 500, 503])
def test_a_head_that_is_not_well_says_nothing_about_a_run(launcher, head, tmp_path, status):
    job = a_job(tmp_path)
    launcher.start(job)
    head.sick = status
    for ask in (launcher.status, launcher.cancel, lambda handle, run: launcher.logs(handle, run, 0)):
        with pytest.raises(LauncherUnavailable, match=str(status)):
            ask(job.run_id, job)


@pytest.mark.parametrize("said", [b"<html>", b"[]", b"null", b""])
def test_what_is_no_ray_takes_no_run_and_says_nothing_about_one(tmp_path, said):
    other = RayLauncher("http://other", transport=httpx2.MockTransport(lambda request: httpx2.Response(200, content=said)))
    job = a_job(tmp_path)

    for ask in (other.start, *(lambda job, do=do: do(job.run_id, job) for do in (other.status, other.cancel))):
        with pytest.raises(LauncherUnavailable, match="http://other is no dashboard of a Ray cluster"):
            ask(job)
