"""The kubernetes launcher: its manifests, and (make test-k8s) a real API server, which admits and stores; no pod runs, so the tests
play the controller."""

import json
import re
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import kubernetes
import pytest
from manifests import unrestricted
from training_platform import until

from parallelsearch.schemas.training import LauncherName, ResourcesSpec, RunState
from trainer.launchers.interface import Job, LauncherUnavailable, LaunchRefused, with_log
from trainer.launchers.kubernetes import KubernetesLauncher, job_state
from trainer.launchers.manifests import KubernetesSettings, job_manifest, ray_job_manifest, script, script_file

RUNS = "/v1/training-runs"
SETTINGS = {
    "image": "registry.example/parallelsearch-trainer:1",
    "claim": "runs",
    "secrets": ("wandb",),
    "node_selector": {"gpu": "hopper"},
    "tolerations": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
    "service_account": "trainer",
}
NOW = "2026-11-28T00:00:00Z"


def on_a_server(test):
    return pytest.mark.k8s(pytest.mark.filterwarnings("ignore:Unverified HTTPS")(test))


@pytest.fixture
def settings(tmp_path):
    return KubernetesSettings(**SETTINGS, mount=tmp_path)


@pytest.fixture
def cluster(tmp_path, kubeconfig):
    return KubernetesSettings(**SETTINGS, mount=tmp_path, kubeconfig=kubeconfig)


@pytest.fixture
def launcher(cluster):
    return KubernetesLauncher(cluster)


@pytest.fixture
def batch(cluster):
    return kubernetes.client.BatchV1Api(kubernetes.config.new_client_from_config(str(cluster.kubeconfig)))


def a_job(folder, **resources):
    run_id = f"run-{uuid.uuid4().hex[:12]}"
    environment = {"TRAINER_RUN_FOLDER": str(folder / run_id), "B": "2"}
    return Job(
        run_id,
        ("python3", "-m", "openrlhf.cli.train_ppo_ray", "--a", "b c"),
        environment,
        folder / run_id,
        ResourcesSpec(**resources),
    )


def set_status(batch, job, **status):
    batch.patch_namespaced_job_status(job.run_id, "default", {"status": status})


def test_a_job_carries_image_command_environment_mounts_and_who_owns_it(settings, tmp_path):
    manifest = job_manifest(a_job(tmp_path, gpus_per_node=4), settings)
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert container["image"] == SETTINGS["image"]
    assert container["command"][-5:] == ["python3", "-m", "openrlhf.cli.train_ppo_ray", "--a", "b c"]
    assert {"name": "B", "value": "2"} in container["env"]
    assert container["envFrom"] == [{"secretRef": {"name": "wandb"}}]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert container["volumeMounts"][0]["mountPath"] == str(tmp_path)
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "runs"}
    assert pod["nodeSelector"] == {"gpu": "hopper"}
    assert pod["tolerations"] == list(SETTINGS["tolerations"])
    assert manifest["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "parallelsearch-trainer"
    assert manifest["spec"]["ttlSecondsAfterFinished"] == 86_400
    assert manifest["spec"]["backoffLimit"] == 0


def test_pods_may_run_where_the_namespace_is_restricted(settings, tmp_path):
    ray_job = ray_job_manifest(a_job(tmp_path, nodes=2), settings)["spec"]
    cluster = ray_job["rayClusterSpec"]
    templates = [ray_job["submitterPodTemplate"], cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]]
    templates.append(job_manifest(a_job(tmp_path), settings)["spec"]["template"])
    assert [unrestricted(template["spec"]) for template in templates] == [[], [], [], []]


@pytest.mark.parametrize("claim", ["hub", "runs", "shm", "hub.v1", "h" * 253])
def test_further_claims_of_any_name_can_only_be_read(settings, tmp_path, claim):
    settings = settings.model_copy(update={"inputs": {claim: Path("/hub"), "data": Path("/data")}})
    pod = job_manifest(a_job(tmp_path), settings)["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}

    assert len(volumes) == len(pod["volumes"]) == len(mounts) == 4
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) for name in volumes)
    for path, name in (("/hub", claim), ("/data", "data")):
        assert mounts[path]["readOnly"]
        assert volumes[mounts[path]["name"]] == {"claimName": name, "readOnly": True}


def test_the_commands_exit_code_and_output_survive_the_shell_around_it(settings, tmp_path):
    job = a_job(tmp_path)
    job = Job(job.run_id, ("sh", "-c", "echo 'a  b'; exit 5"), {}, job.folder, job.resources)
    command = job_manifest(job, settings)["spec"]["template"]["spec"]["containers"][0]["command"]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 5
    assert done.stdout == job.log.read_text() == "a  b\n"


def test_several_nodes_are_a_ray_job_with_a_worker_on_each(settings, tmp_path):
    spec = ray_job_manifest(a_job(tmp_path, nodes=3, gpus_per_node=8), settings)["spec"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]

    assert workers["replicas"] == workers["maxReplicas"] == 3
    assert workers["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in head["resources"]["limits"]


def test_the_command_of_a_ray_job_survives_the_shells_on_its_way(settings, tmp_path):
    """KubeRay's submitter gives it to bash, `ray job submit` joins the words as for Windows, Ray gives that to a shell."""
    job = replace(a_job(tmp_path, nodes=2), command=("sh", "-c", 'echo "$0" and $#; exit 5', "b  c", "d"))
    entrypoint = ray_job_manifest(job, settings)["spec"]["entrypoint"]
    job.folder.mkdir()
    script_file(job).write_text(script(job))
    words = subprocess.run(["bash", "-c", f"printf '%s\\n' {entrypoint}"], capture_output=True, text=True, check=True).stdout
    done = subprocess.run(["bash", "-c", subprocess.list2cmdline(words.splitlines())], capture_output=True, text=True)

    assert done.returncode == 5
    assert done.stdout == job.log.read_text() == "b  c and 1\n"


@on_a_server
def test_a_job_is_created_once_read_and_driven_through_its_states(launcher, batch, tmp_path):
    job = a_job(tmp_path)
    handle = launcher.start(job)

    assert launcher.start(job) == handle == f"job/{job.run_id}"
    assert launcher.status(handle, job).state is RunState.QUEUED
    set_status(batch, job, active=1, startTime=NOW)
    assert launcher.status(handle, job).state is RunState.RUNNING
    set_status(batch, job, active=0, succeeded=1, completionTime=NOW, conditions=[{"type": "Complete", "status": "True"}])
    assert launcher.status(handle, job).state is RunState.SUCCEEDED


def test_a_pod_that_waits_for_a_node_does_not_run_yet():
    waiting, running, not_told = (kubernetes.client.V1JobStatus(active=1, ready=ready) for ready in (0, 1, None))

    assert job_state(waiting).state is RunState.QUEUED
    assert "not started it yet" in job_state(waiting).detail
    assert job_state(running).state is job_state(not_told).state is RunState.RUNNING


@on_a_server
def test_a_job_whose_start_was_not_recorded_can_be_ended(launcher, tmp_path):
    job = a_job(tmp_path)
    handle = launcher.start(job)
    launcher.cancel("", job)

    assert "gone" in launcher.status(handle, job).detail


@on_a_server
def test_a_failed_job_says_what_the_cluster_says(launcher, batch, tmp_path):
    job = a_job(tmp_path)
    handle = launcher.start(job)
    failure = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
    set_status(batch, job, failed=1, conditions=[failure])
    status = launcher.status(handle, job)

    assert status.state is RunState.FAILED
    assert status.detail == "BackoffLimitExceeded: Job has reached the limit"


@on_a_server
def test_a_cancelled_job_is_gone_and_cancelling_twice_is_no_fault(launcher, tmp_path):
    job = a_job(tmp_path)
    handle = launcher.start(job)
    launcher.cancel(handle, job)
    launcher.cancel(handle, job)

    assert launcher.status(handle, job).state is RunState.FAILED
    assert "gone" in launcher.status(handle, job).detail


@on_a_server
@pytest.mark.parametrize(("code", "state"), [("0", RunState.SUCCEEDED), ("3", RunState.FAILED)])
def test_a_job_that_the_cluster_has_cleared_away_is_known_by_its_exit_code(launcher, tmp_path, code, state):
    job = replace(a_job(tmp_path), command=("sh", "-c", f"exit {code}"))
    assert subprocess.run(with_log(job), check=False).returncode == int(code)

    assert launcher.status(f"job/{job.run_id}", job).state is state


@on_a_server
def test_what_kubernetes_refuses_is_told_in_its_words(launcher, tmp_path):
    job = a_job(tmp_path)
    with pytest.raises(LaunchRefused, match="Invalid value"):
        launcher.start(Job("Not_A_Name", job.command, job.environment, job.folder, job.resources))
    with pytest.raises(LaunchRefused, match="needs KubeRay"):
        launcher.start(a_job(tmp_path, nodes=2))  # this server has none


@on_a_server
def test_a_quota_that_is_used_up_is_waited_for(launcher, cluster, tmp_path):
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(cluster.kubeconfig)))
    none = {"hard": {"count/jobs.batch": "0"}, "used": {"count/jobs.batch": "0"}}
    core.create_namespaced_resource_quota("default", {"metadata": {"name": "none"}, "spec": {"hard": none["hard"]}})
    core.patch_namespaced_resource_quota_status("none", "default", {"status": none})
    with pytest.raises(LauncherUnavailable, match=r"no room for the run now.*exceeded quota"):
        until(lambda: not launcher.start(a_job(tmp_path)), timeout_s=20)  # the server heeds a new quota a moment later
    job = a_job(tmp_path)
    core.delete_namespaced_resource_quota("none", "default")
    assert until(lambda: started(launcher, job)) == f"job/{job.run_id}"


def started(launcher, job):
    try:
        return launcher.start(job)
    except LauncherUnavailable:
        return None


@on_a_server
def test_credentials_that_are_not_known_any_more_are_no_refusal(cluster, tmp_path):
    (tmp_path / "config").write_text(cluster.kubeconfig.read_text().replace("token: ", "token: not-"))
    stranger, job = KubernetesLauncher(cluster.model_copy(update={"kubeconfig": tmp_path / "config"})), a_job(tmp_path)

    handle = f"job/{job.run_id}"
    for ask in (lambda: stranger.start(job), lambda: stranger.status(handle, job), lambda: stranger.cancel(handle, job)):
        with pytest.raises(LauncherUnavailable, match="does not know the trainer"):
            ask()


@on_a_server
def test_a_server_that_cannot_be_reached_is_no_refusal(cluster, tmp_path):
    text = cluster.kubeconfig.read_text()
    (tmp_path / "config").write_text(re.sub(r":\d+", ":18499", text))
    launcher = KubernetesLauncher(cluster.model_copy(update={"kubeconfig": tmp_path / "config"}))

    with pytest.raises(LauncherUnavailable):
        launcher.start(a_job(tmp_path))


@on_a_server
def test_a_run_goes_through_the_cluster_and_a_restarted_trainer_finds_it(start_trainer, platform, launcher, batch):
    launchers = {LauncherName.KUBERNETES: launcher}
    with start_trainer(launchers=launchers) as trainer:
        run_id = trainer.submit(platform.spec(launcher="kubernetes")).json()["id"]
        trainer.wait(run_id, "running")
    again = start_trainer(launchers=launchers)
    batch.patch_namespaced_job_status(run_id, "default", {"status": {"active": 1, "startTime": NOW}})
    assert again.run(run_id)["state"] == "running"
    log = platform.folder / "runs" / run_id / "output.log"
    log.write_text("one\ntwo\n")
    failure = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}
    batch.patch_namespaced_job_status(run_id, "default", {"status": {"active": 0, "conditions": [failure]}})
    run = again.wait(run_id, "failed")

    assert run["detail"] == "DeadlineExceeded: too long"
    assert run["last_log_lines"] == ["one", "two"]
    assert json.loads((platform.folder / "runs" / run_id / "spec.json").read_text())["launcher"] == "kubernetes"
