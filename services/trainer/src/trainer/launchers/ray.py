"""Runs as jobs of a running Ray cluster, through the Jobs API of its head (REST, so that the trainer needs no Ray of its own)."""

from __future__ import annotations

import shlex
from typing import Any

import httpx2

from parallelsearch.schemas.training import RunState
from trainer.launchers.interface import (
    MAX_READ,
    Job,
    LauncherUnavailable,
    LaunchRefused,
    RunFiles,
    Status,
    read_log,
    with_log,
    without_cluster,
)

TIMEOUT_S = 15.0
NOT_FOUND = 404
MAX_MESSAGE = 1_000
LOG_TAIL = ", last available logs"
"""With this begins what Ray adds of a job's log to its message, up to 20,000 characters; the run's last lines have it."""
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
        self._address = address
        self._http = httpx2.Client(base_url=address.rstrip("/"), timeout=TIMEOUT_S, transport=transport, trust_env=False)

    def check(self, job: Job) -> None:
        """The cluster waits for the resources that a job asks for; what it has may grow."""

    def start(self, job: Job) -> str:
        body = {
            "submission_id": job.run_id,
            "entrypoint": shlex.join(with_log(job)),
            "runtime_env": {"env_vars": dict(job.environment)},
            "metadata": {"owner": "parallelsearch-trainer"},
        }
        answer = self._ask("POST", "/api/jobs/", json=body)
        if answer.is_success:
            self._read(answer)
        elif self._find(job) is None:
            said = answer.text.strip()[-300:]
            # A head that has no agent ready for jobs yet answers 500, as it does to a job that it has already.
            if answer.is_server_error:
                raise LauncherUnavailable(f"The Ray cluster takes no job now: {said}")
            raise LaunchRefused(f"Ray refuses the run: {said}")
        return job.run_id

    def status(self, handle: str, run: RunFiles) -> Status:
        found = self._find(run)
        if found is None:
            # A head that was started anew has forgotten its jobs.
            return without_cluster(run, "The Ray cluster does not know the run any more.")
        state = STATES.get(str(found.get("status")), RunState.QUEUED)
        message = str(found.get("message") or "").partition(LOG_TAIL)[0][:MAX_MESSAGE]
        return Status(state, message if state in {RunState.FAILED, RunState.QUEUED} else "")

    def cancel(self, handle: str, run: RunFiles) -> None:
        answer = self._ask("POST", f"/api/jobs/{run.run_id}/stop")
        if answer.status_code != NOT_FOUND:
            self._read(answer)

    def logs(self, handle: str, run: RunFiles, offset: int) -> bytes:
        """From the run's files; of a job that ended before its command began, what Ray says, which it only gives as a whole."""
        if run.log.exists() or not self.status(handle, run).state.is_final:
            return read_log(run, offset)
        answer = self._ask("GET", f"/api/jobs/{run.run_id}/logs")
        if answer.status_code == NOT_FOUND:
            return b""
        return str(self._read(answer).get("logs") or "").encode()[offset : offset + MAX_READ]

    def _find(self, run: RunFiles) -> dict[str, Any] | None:
        """None where the cluster does not know the run; a head that cannot say is not that."""
        answer = self._ask("GET", f"/api/jobs/{run.run_id}")
        if answer.status_code == NOT_FOUND:
            return None
        return self._read(answer)

    def _read(self, answer: httpx2.Response) -> dict[str, Any]:
        """Raises LauncherUnavailable: it is no success, or no answer of a Ray."""
        if not answer.is_success:
            raise LauncherUnavailable(f"The Ray cluster answered {answer.status_code}: {answer.text[-300:]}")
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise LauncherUnavailable(
                f"What answers at {self._address} is no dashboard of a Ray cluster; see to TRAINER_RAY_ADDRESS."
            )
        return found

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx2.HTTPError as error:
            raise LauncherUnavailable(f"The Ray cluster cannot be reached: {error or type(error).__name__}.") from error
        if answer.status_code in {502, 503, 504}:
            raise LauncherUnavailable(f"The Ray cluster is not well: {answer.status_code}.")
        return answer
