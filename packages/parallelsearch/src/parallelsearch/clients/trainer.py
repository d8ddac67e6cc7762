"""The client of the trainer's API, for the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2

from parallelsearch.clients.http import CONNECT_TIMEOUT_S, check
from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.schemas.training import DryRun, Promotion, TrainingRun, TrainingRunList

NAME = "trainer"
TIMEOUT_S = 30.0
PROMOTE_TIMEOUT_S = 330.0


class TrainerClient:
    """Synchronous; `token` is the admin's, which only writing needs."""

    def __init__(self, base_url: str, *, token: str = "", transport: httpx2.BaseTransport | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        url = base_url.rstrip("/") + "/v1/"
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout, transport=transport, trust_env=False)

    def submit(self, spec: dict[str, Any], key: str | None = None) -> TrainingRun:
        headers = {"idempotency-key": key} if key else {}
        return TrainingRun.model_validate_json(self._ask("POST", "training-runs", json=spec, headers=headers).content)

    def dry_run(self, spec: dict[str, Any]) -> DryRun:
        return DryRun.model_validate_json(self._ask("POST", "training-runs/dry-run", json=spec).content)

    def list(self) -> TrainingRunList:
        return TrainingRunList.model_validate_json(self._ask("GET", "training-runs").content)

    def show(self, run_id: str) -> TrainingRun:
        return TrainingRun.model_validate_json(self._ask("GET", f"training-runs/{run_id}").content)

    def cancel(self, run_id: str) -> TrainingRun:
        return TrainingRun.model_validate_json(self._ask("DELETE", f"training-runs/{run_id}").content)

    def promote(self, run_id: str, step: int) -> Promotion:
        path = f"training-runs/{run_id}/checkpoints/{step}/promote"
        return Promotion.model_validate_json(self._ask("POST", path, timeout=PROMOTE_TIMEOUT_S).content)

    def logs(self, run_id: str, *, follow: bool) -> Iterator[str]:
        """The run's output in pieces; with `follow`, until the run has ended."""
        endless = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
        try:
            with self._http.stream("GET", f"training-runs/{run_id}/logs", params={"follow": follow}, timeout=endless) as answer:
                if not answer.is_success:
                    answer.read()
                yield from check(answer, NAME).iter_text()
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            return check(self._http.request(method, path, **arguments), NAME)
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error


def _unreachable(error: httpx2.HTTPError) -> UpstreamUnavailable:
    return UpstreamUnavailable(f"The trainer cannot be reached: {error or type(error).__name__}.")
