"""What a run looks like in Kubernetes, as pure functions: a batch/v1 Job on one node, a RayJob (KubeRay) on several."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from trainer.launchers.interface import Job, with_log

OWNER = {"app.kubernetes.io/name": "parallelsearch-trainer", "app.kubernetes.io/managed-by": "parallelsearch-trainer"}
RUN_LABEL = "parallelsearch.run"
CONTAINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class KubernetesSettings(BaseModel):
    """Environment names start with `TRAINER_KUBERNETES__`. The claim is mounted at `mount`, in the trainer's own pod too.

    `inputs` are further claims that runs only read, and where: `{"hub": "/hub"}`. Pods meet the level `restricted`, as `user`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str = "default"
    image: str
    claim: str
    mount: Path
    inputs: dict[str, Path] = {}
    user: int = Field(default=10_001, ge=1)
    sources: Path = Path("/app")
    python: str = "python3"
    gpu_resource: str = "nvidia.com/gpu"
    service_account: str | None = None
    secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, str], ...] = ()
    memory: str = "64Gi"
    cpu: str = "8"
    shared_memory: str = "16Gi"
    ttl_s: int = Field(default=86_400, ge=0)
    ray_version: str = "2.55.0"
    kubeconfig: Path | None = None


def job_manifest(job: Job, settings: KubernetesSettings) -> dict[str, Any]:
    """One pod, never restarted by Kubernetes: a run that fails is failed, and resumed on purpose."""
    pod = _pod(job, settings, with_log(job), gpus=job.resources.gpus_per_node)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.run_id, "namespace": settings.namespace, "labels": _labels(job)},
        "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": settings.ttl_s, "template": pod},
    }


def ray_job_manifest(job: Job, settings: KubernetesSettings) -> dict[str, Any]:
    """A cluster of its own for the run: a head without GPUs, and a worker on each node.

    Its entrypoint is a file with `script`, which lies with the run's: KubeRay's submitter and `ray job submit` each quote the words
    of an entrypoint anew, and not so that what a shell is to see last stays as it is.
    """
    head, worker = (_pod(job, settings, None, gpus=gpus) for gpus in (0, job.resources.gpus_per_node))
    nodes = job.resources.nodes
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": job.run_id, "namespace": settings.namespace, "labels": _labels(job)},
        "spec": {
            "entrypoint": shlex.join(["/bin/sh", str(script_file(job))]),
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": settings.ttl_s,
            "backoffLimit": 0,
            "submitterPodTemplate": {"metadata": {"labels": _labels(job)}, "spec": _submitter(settings)},
            "rayClusterSpec": {
                "rayVersion": settings.ray_version,
                "headGroupSpec": {"rayStartParams": {"num-gpus": "0"}, "template": head},
                "workerGroupSpecs": [
                    {
                        "groupName": "gpu",
                        "replicas": nodes,
                        "minReplicas": nodes,
                        "maxReplicas": nodes,
                        "rayStartParams": {},
                        "template": worker,
                    }
                ],
            },
        },
    }


def script_file(job: Job) -> Path:
    return job.folder / "entrypoint.sh"


def script(job: Job) -> str:
    """What a RayJob runs."""
    return f"exec {shlex.join(with_log(job))}\n"


def _labels(job: Job) -> dict[str, str]:
    return {**OWNER, RUN_LABEL: job.run_id}


def _pod(job: Job, settings: KubernetesSettings, command: list[str] | None, *, gpus: int) -> dict[str, Any]:
    limits = {"memory": settings.memory, "cpu": settings.cpu} | ({settings.gpu_resource: str(gpus)} if gpus else {})
    claims: list[dict[str, Any]] = [{"name": "runs", "persistentVolumeClaim": {"claimName": settings.claim}}]
    # A volume's name may not be as long as a claim's, has no dots, and there is but one of it.
    inputs = {f"input-{number}": given for number, given in enumerate(settings.inputs.items(), start=1)}
    claims += [
        {"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}} for name, (claim, _) in inputs.items()
    ]
    mounts: list[dict[str, Any]] = [{"name": "runs", "mountPath": str(settings.mount)}, {"name": "shm", "mountPath": "/dev/shm"}]
    mounts += [{"name": name, "mountPath": str(path), "readOnly": True} for name, (_, path) in inputs.items()]
    # The user has no home in an image of others; what caches there may go to /tmp.
    environment = {"HOME": "/tmp", **job.environment}
    container: dict[str, Any] = {
        "name": "run",
        "image": settings.image,
        "env": [{"name": name, "value": value} for name, value in sorted(environment.items())],
        "envFrom": [{"secretRef": {"name": name}} for name in settings.secrets],
        "resources": {"limits": limits, "requests": limits},
        "securityContext": CONTAINED,
        "volumeMounts": mounts,
    }
    if command is not None:
        container["command"] = command
    spec = _once(container, settings) | {
        "volumes": [*claims, {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": settings.shared_memory}}]
    }
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    return {"metadata": {"labels": _labels(job)}, "spec": spec}


def _submitter(settings: KubernetesSettings) -> dict[str, Any]:
    """The pod that hands the job to the run's cluster: KubeRay fills the command in, and would leave out what `restricted` asks."""
    container = {
        "name": "ray-job-submitter",
        "image": settings.image,
        "env": [{"name": "HOME", "value": "/tmp"}],
        "resources": {"limits": {"memory": "1Gi", "cpu": "1"}, "requests": {"memory": "256Mi", "cpu": "100m"}},
        "securityContext": CONTAINED,
    }
    return _once(container, settings)


def _once(container: dict[str, Any], settings: KubernetesSettings) -> dict[str, Any]:
    """The specification of a pod that runs the container, closed and where the settings say; nothing starts it again."""
    return {
        "containers": [container],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        # Else Kubernetes sets RETRIEVER_PORT and the like to addresses of Services, which are names of the platform's settings.
        "enableServiceLinks": False,
        "securityContext": _user(settings.user),
        "nodeSelector": settings.node_selector,
        "tolerations": list(settings.tolerations),
    }


def _user(number: int) -> dict[str, Any]:
    """What the Pod Security level `restricted` asks of a pod; the group makes the claim's files writable."""
    return {
        "runAsNonRoot": True,
        "runAsUser": number,
        "runAsGroup": number,
        "fsGroup": number,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
