"""The kubernetes launcher among others' objects, and what it says of a run that waits (make test-k8s): a real API server, in which
the tests play the controllers, the scheduler and the kubelet."""

import datetime
import uuid

import kubernetes
import pytest
from training_platform import until

from parallelsearch.schemas.training import LauncherName, ResourcesSpec, RunState
from trainer.launchers.interface import Job, LaunchRefused
from trainer.launchers.kubernetes import WAITS, KubernetesLauncher
from trainer.launchers.manifests import OWNER, RUN_LABEL, KubernetesSettings, job_manifest

pytestmark = [pytest.mark.k8s, pytest.mark.filterwarnings("ignore:Unverified HTTPS")]
RUNS = "/v1/training-runs"


class Cluster:
    def __init__(self, kubeconfig):
        client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self.core, self.batch = kubernetes.client.CoreV1Api(client), kubernetes.client.BatchV1Api(client)

    def pod(self, job, **status):
        labels = {RUN_LABEL: job.run_id}
        body = {
            "metadata": {"name": f"{job.run_id}-{uuid.uuid4().hex[:5]}", "labels": labels},
            "spec": {"containers": [{"name": "run", "image": "none"}]},
        }
        pod = self.core.create_namespaced_pod("default", body)
        self.core.patch_namespaced_pod_status(pod.metadata.name, "default", {"status": {"phase": "Pending", **status}})
        return pod.metadata.name

    def warns(self, name, reason, message, ago_s=0):
        at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago_s - 1)
        body = {
            "metadata": {"name": f"{name}.{uuid.uuid4().hex[:8]}"},
            "involvedObject": {"name": name, "namespace": "default"},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": at.isoformat(),
        }
        self.core.create_namespaced_event("default", body)


@pytest.fixture
def cluster(kubeconfig):
    return Cluster(kubeconfig)


@pytest.fixture
def settings(tmp_path, kubeconfig):
    return KubernetesSettings(image="trainer:1", claim="runs", mount=tmp_path, kubeconfig=kubeconfig)


@pytest.fixture
def launcher(settings):
    return KubernetesLauncher(settings)


@pytest.fixture
def job(tmp_path):
    run_id = f"run-{uuid.uuid4().hex[:12]}"
    return Job(run_id, ("true",), {}, tmp_path / run_id, ResourcesSpec())


OTHERS = [{}, {"app": "theirs"}, {**OWNER, RUN_LABEL: "run-of-another"}, {RUN_LABEL: "the run's", **dict.fromkeys(OWNER, "x")}]


def others(labels, job):
    return {name: job.run_id if value == "the run's" else value for name, value in labels.items()}


@pytest.mark.parametrize("labels", OTHERS)
def test_a_job_of_the_same_name_that_is_not_the_runs_is_refused_left_alone_and_not_asked(launcher, cluster, settings, job, labels):
    body = job_manifest(job, settings)
    # A job without labels gets those of its pods.
    body["metadata"]["labels"] = body["spec"]["template"]["metadata"]["labels"] = others(labels, job)
    theirs = cluster.batch.create_namespaced_job("default", body)
    with pytest.raises(LaunchRefused, match=rf"job/{job.run_id} in namespace default that is not this run's"):
        launcher.start(job)
    for handle in ("", f"job/{job.run_id}"):
        launcher.cancel(handle, job)
    cluster.batch.patch_namespaced_job_status(
        job.run_id, "default", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    )

    assert cluster.batch.read_namespaced_job(job.run_id, "default").metadata.uid == theirs.metadata.uid
    assert launcher.status(f"job/{job.run_id}", job).state is RunState.FAILED


def test_a_run_whose_name_another_has_now_is_failed_and_ends_nothing(start_trainer, platform, launcher, cluster):
    with start_trainer(launchers={LauncherName.KUBERNETES: launcher}) as trainer:
        run_id = trainer.submit(platform.spec(launcher="kubernetes")).json()["id"]
        trainer.wait(run_id, "running")
    cluster.batch.patch_namespaced_job(run_id, "default", {"metadata": {"labels": {RUN_LABEL: "another"}}})
    again = start_trainer(launchers={LauncherName.KUBERNETES: launcher})

    assert "not this run's" in again.wait(run_id, "failed")["detail"]
    assert cluster.batch.read_namespaced_job(run_id, "default")


IMAGE = {"name": "run", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
PULL = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "none"'}
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: no GPU."}


def quota(cluster, job):
    cluster.warns(job.run_id, "FailedCreate", "Error creating: exceeded quota: gpus")
    return "FailedCreate: Error creating: exceeded quota: gpus"


def no_node(cluster, job):
    cluster.pod(job, conditions=[NO_NODE])
    return "Unschedulable: 0/3 nodes: no GPU."


def no_node_by_event(cluster, job):
    cluster.warns(cluster.pod(job), "FailedScheduling", "0/3 nodes are available")
    return "FailedScheduling: 0/3 nodes are available"


def no_image(cluster, job):
    cluster.pod(job, containerStatuses=[IMAGE | {"state": {"waiting": PULL}}])
    return 'ImagePullBackOff: Back-off pulling image "none"'


def no_claim(cluster, job):
    cluster.warns(cluster.pod(job), "FailedMount", "Unable to\n attach or mount volumes: runs", ago_s=60)
    return "FailedMount: Unable to attach or mount volumes: runs"


def all_well(cluster, job):
    cluster.warns(job.run_id, "FailedCreate", "exceeded quota, before there was room", ago_s=600)
    cluster.pod(job, containerStatuses=[IMAGE | {"state": {"waiting": {"reason": "ContainerCreating"}}}])
    return ""


@pytest.mark.parametrize("happens", [quota, no_node, no_node_by_event, no_image, no_claim, all_well])
def test_a_run_that_waits_says_what_for_until_it_runs(launcher, cluster, job, happens):
    handle = launcher.start(job)
    assert launcher.status(handle, job).detail == WAITS
    said = happens(cluster, job)
    pods = cluster.core.list_namespaced_pod("default", label_selector=f"{RUN_LABEL}={job.run_id}").items
    # Servers before 1.24 count a pod that waits as active, later ones say how many of those are ready.
    for counted in {0, len(pods)}:
        cluster.batch.patch_namespaced_job_status(job.run_id, "default", {"status": {"active": counted}})
        status = launcher.status(handle, job)
        assert (status.state, status.detail) == (RunState.QUEUED, f"{WAITS} {said}".strip())

    for pod in pods:
        cluster.core.delete_namespaced_pod(pod.metadata.name, "default", grace_period_seconds=0)
    cluster.pod(job, phase="Running")
    cluster.batch.patch_namespaced_job_status(job.run_id, "default", {"status": {"active": 1}})
    status = launcher.status(handle, job)
    assert (status.state, status.detail) == (RunState.RUNNING, "")


def test_a_run_shows_what_its_cluster_says(start_trainer, platform, launcher, cluster):
    trainer = start_trainer(launchers={LauncherName.KUBERNETES: launcher})
    run_id = trainer.submit(platform.spec(launcher="kubernetes")).json()["id"]
    trainer.wait(run_id, "running")
    cluster.warns(run_id, "FailedCreate", "exceeded quota: gpus")

    assert until(lambda: "exceeded quota: gpus" in trainer.run(run_id)["detail"])
