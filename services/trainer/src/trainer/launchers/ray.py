"""Runs as jobs of a running Ray cluster, through the Jobs API of its head (REST, so that the trainer needs no Ray of its own)."""

from __future__ import annotations

import shlex
from typing import Any

import httpx2

from parallelsearch.schemas.training import ResourcesSpec, RunState
from trainer.launchers.interface import Job, LauncherUnavailable, LaunchRefused, RunFiles, Status, with_log

TIMEOUT_S = 15.0
NOT_FOUND = 404
STATES = {
    "PENDING": RunState.QUEUED,
    "RUNNING": RunState.RUNNING,
    "SUCCEEDED": RunState.SUCCEEDED,
    "FAILED": RunState.FAILED,
    "STOPPED": RunState.CANCELLED,
}


class RayLauncher:
    """`address` is the head's dashboard, `http://head:8265`. The submission id is the run's, so a start is never doubled."""

    def __init__(self, address: str, *, transport: httpx2.BaseTransport | None = None) -> None:
        self._http = httpx2.Client(base_url=address.rstrip("/"), timeout=TIMEOUT_S, transport=transport, trust_env=False)

    def check(self, resources: ResourcesSpec) -> None:
        """The cluster waits for the resources that a job asks for; what it has may grow."""

    def start(self, job: Job) -> str:
        body = {
            "submission_id": job.run_id,
            "entrypoint": shlex.join(with_log(job)),
            "runtime_env": {"env_vars": dict(job.environment)},
            "metadata": {"owner": "parallelsearch-trainer"},
        }
        answer = self._ask("POST", "/api/jobs/", json=body)
        if not answer.is_success and self._find(job) is None:
            raise LaunchRefused(f"Ray refuses the run: {answer.text[-300:]}")
        return job.run_id

    def status(self, handle: str, run: RunFiles) -> Status:
        found = self._find(run)
        if found is None:
            return Status(RunState.FAILED, "The Ray cluster does not know the run any more.")
        state = STATES.get(str(found.get("status")), RunState.QUEUED)
        return Status(state, str(found.get("message") or "") if state is RunState.FAILED else "")

    def cancel(self, handle: str, run: RunFiles) -> None:
        answer = self._ask("POST", f"/api/jobs/{run.run_id}/stop")
        if answer.status_code != NOT_FOUND:
            _succeeded(answer)

    def logs(self, handle: str, run: RunFiles, offset: int) -> bytes:
        answer = self._ask("GET", f"/api/jobs/{run.run_id}/logs")
        if answer.status_code == NOT_FOUND:
            return b""
        return str(_succeeded(answer).json().get("logs") or "").encode()[offset:]

    def _find(self, run: RunFiles) -> dict[str, Any] | None:
        """None where the cluster does not know the run; a head that cannot say is not that."""
        answer = self._ask("GET", f"/api/jobs/{run.run_id}")
        if answer.status_code == NOT_FOUND:
            return None
        found: dict[str, Any] = _succeeded(answer).json()
        return found

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx2.HTTPError as error:
            raise LauncherUnavailable(f"The Ray cluster cannot be reached: {error or type(error).__name__}.") from error
        if answer.status_code in {502, 503, 504}:
            raise LauncherUnavailable(f"The Ray cluster is not well: {answer.status_code}.")
        return answer


def _succeeded(answer: httpx2.Response) -> httpx2.Response:
    if not answer.is_success:
        raise LauncherUnavailable(f"The Ray cluster answered {answer.status_code}: {answer.text[-300:]}")
    return answer
