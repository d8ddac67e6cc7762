"""The client of the trainer's API, for the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from parallelsearch.clients.http import CONNECT_TIMEOUT_S, check, checked_address, checked_token, without_password
from parallelsearch.errors import InvalidInput, UpstreamUnavailable
from parallelsearch.schemas.training import (
    MAX_LISTED,
    CheckpointList,
    DryRun,
    Promotion,
    RunState,
    TrainingMetrics,
    TrainingRun,
    TrainingRunList,
)

M = TypeVar("M", bound=BaseModel)
NAME = "trainer"
TIMEOUT_S = 30.0
CHANGE_TIMEOUT_S = 120.0
"""Judging data files and importing a reward, or ending processes that do not want to end, may take a trainer over half a minute."""
PROMOTE_TIMEOUT_S = 330.0
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class EndedRun(BaseModel):
    id: str
    state: RunState


class TrainerClient:
    """Synchronous; `token` is the admin's, which only writing needs."""

    def __init__(self, base_url: str, *, token: str = "", transport: httpx2.BaseTransport | None = None) -> None:
        """Raises InvalidInput: the address is none, or the token cannot be sent."""
        headers = {"authorization": f"Bearer {checked_token(token, 'ADMIN_TOKEN')}"} if token else {}
        timeout = httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        url = checked_address(base_url).rstrip("/") + "/v1/"
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout, transport=transport, trust_env=False)

    def submit(self, spec: dict[str, Any], key: str | None = None) -> TrainingRun:
        if key is not None and not checked_token(key, "key"):
            raise InvalidInput("key: must not be empty.")
        headers = {} if key is None else {"idempotency-key": key}
        return self._ask(TrainingRun, "POST", "training-runs", json=spec, headers=headers, timeout=CHANGE_TIMEOUT_S)

    def dry_run(self, spec: dict[str, Any]) -> DryRun:
        return self._ask(DryRun, "POST", "training-runs/dry-run", json=spec, timeout=CHANGE_TIMEOUT_S)

    def list(self, states: Sequence[RunState] = (), *, limit: int = MAX_LISTED) -> TrainingRunList:
        """The newest `limit` runs, of all or of those in `states`, over as many pages as that takes."""
        runs: list[TrainingRun] = []
        cursor: str | None = ""
        while cursor is not None and len(runs) < limit:
            asked = {"state": states, "limit": min(limit - len(runs), MAX_LISTED)} | ({"cursor": cursor} if cursor else {})
            page = self._ask(TrainingRunList, "GET", "training-runs", params=asked)
            runs, cursor = [*runs, *page.runs], page.next
        return TrainingRunList(runs=runs, next=cursor)

    def show(self, run_id: str) -> TrainingRun:
        return self._ask(TrainingRun, "GET", _path(run_id))

    def metrics(self, run_id: str, since: int = 0) -> TrainingMetrics:
        return self._ask(TrainingMetrics, "GET", f"{_path(run_id)}/metrics", params={"since": since})

    def checkpoints(self, run_id: str) -> CheckpointList:
        return self._ask(CheckpointList, "GET", f"{_path(run_id)}/checkpoints")

    def cancel(self, run_id: str) -> EndedRun:
        """What has become of the run, which may be of a version whose specifications are not read here."""
        return self._ask(EndedRun, "DELETE", _path(run_id), timeout=CHANGE_TIMEOUT_S)

    def promote(self, run_id: str, step: int) -> Promotion:
        return self._ask(Promotion, "POST", f"{_path(run_id)}/checkpoints/{step}/promote", timeout=PROMOTE_TIMEOUT_S)

    def logs(self, run_id: str, *, follow: bool) -> Iterator[str]:
        """The run's output in pieces; with `follow`, until the run has ended."""
        endless = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
        try:
            with self._http.stream("GET", f"{_path(run_id)}/logs", params={"follow": follow}, timeout=endless) as answer:
                if not answer.is_success:
                    answer.read()
                yield from check(answer, NAME).iter_text()
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    def _ask(self, kind: type[M], method: str, path: str, **arguments: Any) -> M:
        try:
            answer = check(self._http.request(method, path, **arguments), NAME)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError:
            raise UpstreamUnavailable(
                f"What answers at {without_password(self._http.base_url)} is no trainer, or one of another version."
            ) from None

    def _unreachable(self, error: httpx2.HTTPError) -> UpstreamUnavailable:
        url = without_password(self._http.base_url).removesuffix("/v1/")
        said = f"The trainer cannot be reached at {url}: {str(error).rstrip('.') or type(error).__name__}."
        return UpstreamUnavailable(f"{said} Start it with: make run" if isinstance(error, httpx2.ConnectError) else said)


def _path(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidInput(f"{run_id!r} is no id of a run; `parallelsearch train list` shows them.")
    return f"training-runs/{run_id}"
