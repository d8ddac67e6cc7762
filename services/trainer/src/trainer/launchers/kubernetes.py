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
from trainer.launchers.manifests import KubernetesSettings, job_manifest, ray_job_manifest, script, script_file

TIMEOUT_S = 15
RAY = {"group": "ray.io", "version": "v1", "plural": "rayjobs"}
RAY_STATES = {
    "Complete": RunState.SUCCEEDED,
    "Failed": RunState.FAILED,
    "ValidationFailed": RunState.FAILED,
    "Running": RunState.RUNNING,
}
WAITS = "The cluster has taken the run and not started it yet."


class KubernetesLauncher:
    def __init__(self, settings: KubernetesSettings) -> None:
        """Raises ConfigurationError: neither a kubeconfig that can be read nor a service account's token is there."""
        self._settings = settings
        client = _client(settings)
        self._batch = kubernetes.client.BatchV1Api(client)
        self._custom = kubernetes.client.CustomObjectsApi(client)

    def check(self, job: Job) -> None:
        """The cluster is the judge, when the job is created."""

    def start(self, job: Job) -> str:
        """The handle says which kind of object it is: `job/NAME` or `rayjob/NAME`."""
        ray = job.resources.nodes > 1
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
        return f"{'rayjob' if ray else 'job'}/{job.run_id}"

    def status(self, handle: str, run: RunFiles) -> Status:
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
        return job_state(found.status)

    def _ray_status(self, run: RunFiles) -> Status:
        found = self._custom.get_namespaced_custom_object(
            **RAY, namespace=self._settings.namespace, name=run.run_id, _request_timeout=TIMEOUT_S
        ).get("status", {})
        state = RAY_STATES.get(found.get("jobDeploymentStatus", ""), RunState.QUEUED)
        if state is RunState.SUCCEEDED and found.get("jobStatus") != "SUCCEEDED":
            state = RunState.FAILED
        if state is RunState.FAILED:
            return Status(state, _sentence(found.get("reason"), found.get("message")))
        return Status(state, WAITS if state is RunState.QUEUED else "")

    def cancel(self, handle: str, run: RunFiles) -> None:
        """Deletes the object and, in the background, its pods; without a handle (its start was not recorded) of either kind."""
        options = {"namespace": self._settings.namespace, "propagation_policy": "Background", "_request_timeout": TIMEOUT_S}
        if not handle.startswith("job/"):
            _delete(self._custom.delete_namespaced_custom_object, f"rayjob/{run.run_id}", **RAY, name=run.run_id, **options)
        if not handle.startswith("rayjob/"):
            _delete(self._batch.delete_namespaced_job, f"job/{run.run_id}", name=run.run_id, **options)

    def logs(self, handle: str, run: RunFiles, offset: int) -> bytes:
        """From the run's files, on the claim that the run writes to."""
        return read_log(run, offset)


def job_state(found: kubernetes.client.V1JobStatus) -> Status:
    for condition in found.conditions or []:
        if condition.status == "True" and condition.type in {"Complete", "Failed"}:
            state = RunState.SUCCEEDED if condition.type == "Complete" else RunState.FAILED
            return Status(state, _sentence(condition.reason, condition.message) if state is RunState.FAILED else "")
    # Active pods are also those that wait for a node; servers before 1.24 do not tell them apart.
    runs = found.active if found.ready is None else found.ready
    return Status(RunState.RUNNING) if runs else Status(RunState.QUEUED, WAITS)


def _delete(call: Callable[..., Any], what: str, **arguments: Any) -> None:
    try:
        with _named():
            call(**arguments)
    except ApiException as error:
        if error.status != 404:
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
