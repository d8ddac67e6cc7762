"""A run's checkpoints: what there is on disk, and promoting one into the policy service."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx2

from parallelsearch.clients.http import check, create_client, named
from parallelsearch.errors import ConfigurationError, InvalidInput, NotFound, UpstreamUnavailable
from parallelsearch.schemas.training import Checkpoint, Promotion, ReinforcementSpec, RunState
from trainer.command import LAST_STEP, MODEL
from trainer.exports import Export, exports
from trainer.jobs import JobBuilder
from trainer.settings import TrainerSettings
from trainer.store import Run


@dataclass(frozen=True)
class Checkpoints:
    settings: TrainerSettings
    jobs: JobBuilder
    transport: httpx2.AsyncBaseTransport | None = None

    def list(self, run: Run) -> list[Checkpoint]:
        """Whole exports only, by step; what a run ended with is that of its last step."""
        found = self._exports(run)
        if run.state is RunState.SUCCEEDED and (step := self._last_step(run)) is not None:
            last = Export(step, self.jobs.folder(run.id) / MODEL)
            found = [export for export in found if export.step != last.step or not last.is_whole] + [last]
        return [described for export in found if (described := _describe(export))]

    def _exports(self, run: Run) -> builtins.list[Export]:
        """None where the run that this one went on with has been removed."""
        try:
            return exports(self.jobs.checkpoints(run.id, run.spec))
        except InvalidInput:
            return []

    def _last_step(self, run: Run) -> int | None:
        """Of a cold start as its processes left it, since only they know how many rows were short enough."""
        if isinstance(run.spec, ReinforcementSpec):
            return run.spec.steps
        try:
            return int((self.jobs.folder(run.id) / LAST_STEP).read_text())
        except (OSError, ValueError):
            return None

    async def promote(self, run: Run, step: int) -> Promotion:
        """Asks the policy service to serve a checkpoint.

        Raises:
            NotFound: there is no whole checkpoint of this step. UpstreamUnavailable: the policy cannot load it.
        """
        found = next((checkpoint for checkpoint in self.list(run) if checkpoint.step == step), None)
        if found is None:
            raise NotFound(f"Run {run.id} has no checkpoint of step {step}.")
        token = self.settings.admin_token
        if token is None:
            raise ConfigurationError("Promoting needs ADMIN_TOKEN, which the policy service checks too.")
        client = create_client(self.settings.policy_url, timeout_s=self.settings.promote_timeout_s, transport=self.transport)
        async with client, named("policy"):
            response = await client.post(
                "v1/policy/weights",
                json={"checkpoint": found.path, "step": step},
                headers={"authorization": f"Bearer {token.get_secret_value()}"},
            )
        return Promotion(step=step, path=found.path, version=_version(check(response, "policy")))


def _version(response: httpx2.Response) -> str:
    try:
        return str(response.json()["version"])
    except (ValueError, KeyError, TypeError):
        raise UpstreamUnavailable("The policy's answer to /v1/policy/weights names no version; see to POLICY_URL.") from None


def _describe(export: Export) -> Checkpoint | None:
    """None of one that is not whole, or is just being removed because later ones are kept: asked last, it was there all along."""
    try:
        files = [file.stat() for file in export.folder.rglob("*") if file.is_file()]
        if not export.is_whole:
            return None
    except FileNotFoundError:
        return None
    newest = max((stat.st_mtime for stat in files), default=0.0)
    created = datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds")
    return Checkpoint(step=export.step, path=str(export.folder), bytes=sum(stat.st_size for stat in files), created_at=created)
