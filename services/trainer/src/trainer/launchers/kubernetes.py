"""Runs as Kubernetes jobs, through the official client. The cluster is asked for the state, so nothing is lost with the trainer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException

from parallelsearch.errors import ConfigurationError, ParallelSearchError
from parallelsearch.schemas.training import RunState
from trainer.launchers.interface import Job, LauncherUnavailable, LaunchRefused, RunFiles, Status, read_log, without_cluster
from trainer.launchers.manifests import (
    OWNER,
    RUN_LABEL,
    KubernetesSettings,
    job_manifest,
    ray_job_manifest,
    script,
    script_file,
)
from trainer.launchers.waiting import is_pending, why_waiting

TIMEOUT_S = 15
RAY = {"group": "ray.io", "version": "v1", "plural": "rayjobs"}
RAY_STATES = {
    "Complete": RunState.SUCCEEDED,
    "Failed": RunState.FAILED,
    "ValidationFailed": RunState.FAILED,
    "Running": RunState.RUNNING,
}
WAITS = "The cluster has taken the run and not started it yet."
MAX_ASKED, MAX_EVENTS = 8, 50
"""Objects whose events are asked for while a run waits, and events of each."""


class KubernetesLauncher:
    def __init__(self, settings: KubernetesSettings) -> None:
        """Raises ConfigurationError: neither a kubeconfig that can be read nor a service account's token is there."""
        self._settings = settings
        client = _client(settings)
        self._batch = kubernetes.client.BatchV1Api(client)
        self._custom = kubernetes.client.CustomObjectsApi(client)
        self._core = kubernetes.client.CoreV1Api(client)

    def check(self, job: Job) -> None:
        """Of all but what no pod would have the cluster is the judge, when the job is created."""
        if not job.folder.is_relative_to(self._settings.mount):
            raise LaunchRefused(
                f"launcher: the run's folder {job.folder} is not on its pods' claim, which is mounted at {self._settings.mount}. "
                "Let TRAINER_RUNS_DIR lie below TRAINER_KUBERNETES__MOUNT, by the same path in the trainer's pod as in others."
            )

    def start(self, job: Job) -> str:
        """The handle says which kind of object it is: `job/NAME` or `rayjob/NAME`."""
        ray = job.resources.nodes > 1
        handle = f"{'rayjob' if ray else 'job'}/{job.run_id}"
        try:
            with _named():
                if ray:
                    job.folder.mkdir(parents=True, exist_ok=True)
                    script_file(job).write_text(script(job))
                    body = ray_job_manifest(job, self._settings)
                    self._custom.create_namespaced_custom_object(
                        **RAY, namespace=self._settings.namespace, body=body, _request_timeout=TIMEOUT_S
                    )
                else:
                    body = job_manifest(job, self._settings)
                    self._batch.create_namespaced_job(self._settings.namespace, body, _request_timeout=TIMEOUT_S)
        except ApiException as error:
            if error.status != 409:
                raise _refusal(error, ray=ray) from error
            self._require_own(handle, job)
        return handle

    def _require_own(self, handle: str, run: RunFiles) -> None:
        """What has the run's name already is the run, whose start was not recorded, or somebody else's."""
        found = self._find(handle, run)
        if found is None:
            raise LauncherUnavailable(f"{handle} was there a moment ago and is gone now.")
        if not _is_own(found, run):
            raise LaunchRefused(
                f"Kubernetes has a {handle} in namespace {self._settings.namespace} that is not this run's (its labels say so). "
                "Remove it, or give the trainer a namespace of its own in TRAINER_KUBERNETES__NAMESPACE."
            )

    def _find(self, handle: str, run: RunFiles) -> dict[str, Any] | None:
        """The metadata of what has the run's name. Raises LauncherUnavailable: the cluster cannot say."""
        where = {"name": run.run_id, "namespace": self._settings.namespace, "_request_timeout": TIMEOUT_S}
        try:
            with _named():
                if handle.startswith("rayjob/"):
                    found: dict[str, Any] = self._custom.get_namespaced_custom_object(**RAY, **where)["metadata"]
                    return found
                metadata = self._batch.read_namespaced_job(**where).metadata
                return {"uid": metadata.uid, "labels": metadata.labels}
        except ApiException as error:
            if error.status == 404:
                return None
            raise LauncherUnavailable(f"Kubernetes cannot say what {handle} is: {_message(error)}") from error

    def status(self, handle: str, run: RunFiles) -> Status:
        """While the run waits, `detail` has what its pods or the cluster's events say."""
        try:
            with _named():
                return self._ray_status(run) if handle.startswith("rayjob/") else self._job_status(run)
        except ApiException as error:
            if error.status == 404:
                # A job that is over is removed after a while.
                return without_cluster(run, f"The {handle} is gone from the cluster.")
            raise LauncherUnavailable(f"Kubernetes cannot say how {handle} is: {_message(error)}") from error

    def _job_status(self, run: RunFiles) -> Status:
        found = self._batch.read_namespaced_job_status(run.run_id, self._settings.namespace, _request_timeout=TIMEOUT_S)
        if not _is_own({"labels": found.metadata.labels}, run):
            return without_cluster(run, f"The job/{run.run_id} of the cluster is not this run's any more.")
        status = job_state(found.status)
        # Servers before 1.24 count pods that wait for a node among those that run.
        unsure = status.state is RunState.RUNNING and found.status.ready is None
        return self._with_reason(status, run, run.run_id) if unsure or status.state is RunState.QUEUED else status

    def _ray_status(self, run: RunFiles) -> Status:
        whole = self._custom.get_namespaced_custom_object(
            **RAY, namespace=self._settings.namespace, name=run.run_id, _request_timeout=TIMEOUT_S
        )
        if not _is_own(whole["metadata"], run):
            return without_cluster(run, f"The rayjob/{run.run_id} of the cluster is not this run's any more.")
        found = whole.get("status", {})
        state = RAY_STATES.get(found.get("jobDeploymentStatus", ""), RunState.QUEUED)
        if state is RunState.SUCCEEDED and found.get("jobStatus") != "SUCCEEDED":
            state = RunState.FAILED
        if state is RunState.FAILED:
            return Status(state, _sentence(found.get("reason"), found.get("message")))
        if state is RunState.RUNNING:
            return Status(state)
        return self._with_reason(Status(state, WAITS), run, *filter(None, (run.run_id, found.get("rayClusterName"))))

    def _with_reason(self, status: Status, run: RunFiles, *owners: str) -> Status:
        """Of a run that waits, with what it waits for. `owners` are the objects that make its pods."""
        where = {"namespace": self._settings.namespace, "_request_timeout": TIMEOUT_S}
        try:
            pods = self._core.list_namespaced_pod(label_selector=f"{RUN_LABEL}={run.run_id}", **where).items
            pending = [pod for pod in pods if is_pending(pod)]
            if status.state is RunState.RUNNING and (not pods or len(pending) < len(pods)):
                return status
            names = [*owners, *(pod.metadata.name for pod in pending)][:MAX_ASKED]
            selectors = (f"involvedObject.name={name},type=Warning" for name in names)
            lists = [self._core.list_namespaced_event(field_selector=one, limit=MAX_EVENTS, **where) for one in selectors]
        except ApiException as error:
            # Rights that the trainer has not cost the reason, not the run.
            if error.status != 403:
                raise
            return status
        why = why_waiting(pods, [event for found in lists for event in found.items])
        return Status(RunState.QUEUED, f"{WAITS} {why}".strip())

    def cancel(self, handle: str, run: RunFiles) -> None:
        """Deletes the object and, in the background, its pods; without a handle (its start was not recorded) of either kind.

        What only has the run's name stays.
        """
        for kind, delete in (("rayjob", self._delete_ray_job), ("job", self._delete_job)):
            what = f"{kind}/{run.run_id}"
            if handle in {"", what} and (found := self._find(what, run)) is not None and _is_own(found, run):
                _delete(delete, what, found["uid"], name=run.run_id, namespace=self._settings.namespace)

    def _delete_ray_job(self, **arguments: Any) -> None:
        self._custom.delete_namespaced_custom_object(**RAY, **arguments)

    def _delete_job(self, **arguments: Any) -> None:
        self._batch.delete_namespaced_job(**arguments)

    def logs(self, handle: str, run: RunFiles, offset: int) -> bytes:
        """From the run's files, on the claim that the run writes to."""
        return read_log(run, offset)


def job_state(found: kubernetes.client.V1JobStatus) -> Status:
    for condition in found.conditions or []:
        if condition.status == "True" and condition.type in {"Complete", "Failed"}:
            state = RunState.SUCCEEDED if condition.type == "Complete" else RunState.FAILED
            return Status(state, _sentence(condition.reason, condition.message) if state is RunState.FAILED else "")
    # Active pods are also those that wait for a node.
    runs = found.active if found.ready is None else found.ready
    return Status(RunState.RUNNING) if runs else Status(RunState.QUEUED, WAITS)


def _is_own(metadata: dict[str, Any], run: RunFiles) -> bool:
    return {**OWNER, RUN_LABEL: run.run_id}.items() <= (metadata.get("labels") or {}).items()


def _delete(call: Callable[..., None], what: str, uid: str, **where: Any) -> None:
    only = kubernetes.client.V1DeleteOptions(
        propagation_policy="Background", preconditions=kubernetes.client.V1Preconditions(uid=uid)
    )
    try:
        with _named():
            call(body=only, _request_timeout=TIMEOUT_S, **where)
    except ApiException as error:
        # Gone, or gone and another one in its place.
        if error.status not in {404, 409}:
            raise LauncherUnavailable(f"Kubernetes did not end {what}: {_message(error)}") from error


def _client(settings: KubernetesSettings) -> Any:
    try:
        if settings.kubeconfig is not None:
            return kubernetes.config.new_client_from_config(str(settings.kubeconfig))
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_incluster_config(configuration)
        return kubernetes.client.ApiClient(configuration)
    except kubernetes.config.ConfigException as error:
        given = f"TRAINER_KUBERNETES__KUBECONFIG ({settings.kubeconfig})" if settings.kubeconfig else "TRAINER_KUBERNETES is set"
        raise ConfigurationError(
            f"{given}: {error} Set TRAINER_KUBERNETES__KUBECONFIG, or run the trainer in a pod with a service account."
        ) from None


@contextmanager
def _named() -> Iterator[None]:
    """A server that fails or cannot be reached is not a refusal."""
    try:
        yield
    except ApiException as error:
        if error.status == 401:
            raise LauncherUnavailable(
                f"The Kubernetes API does not know the trainer: {_message(error)}. Renew its kubeconfig or token."
            ) from error
        if error.status is None or error.status >= 500 or error.status == 429:
            raise LauncherUnavailable(f"The Kubernetes API is not well: {_message(error)}") from error
        raise
    except urllib3.exceptions.HTTPError as error:
        raise LauncherUnavailable(f"The Kubernetes API cannot be reached: {type(error).__name__}.") from error


def _refusal(error: ApiException, *, ray: bool) -> ParallelSearchError:
    """A quota that is used up is waited for, as a GPU is."""
    said = _message(error)
    if error.status == 403 and "exceeded quota" in said:
        return LauncherUnavailable(f"Kubernetes has no room for the run now: {said}")
    if error.status == 404 and ray:
        said += "; a run on several nodes needs KubeRay, which knows RayJob of ray.io/v1, and the namespace"
    return LaunchRefused(f"Kubernetes refuses the run: {said}.")


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _sentence(reason: Any, message: Any) -> str:
    return ": ".join(str(part) for part in (reason, message) if part) or "The cluster says no more."
