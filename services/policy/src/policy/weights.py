"""Changes the weights while the policy serves: verify, stage, let generations end, load, prove, count up; or roll back."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from parallelsearch.errors import InvalidInput, Overloaded, UpstreamUnavailable
from parallelsearch.schemas.weights import PolicyInfo, WeightsRequest
from policy import metrics
from policy.candidates import Verifier
from policy.engines.interface import EngineFault
from policy.metrics import Outcome
from policy.staging import Staging
from policy.state import PolicyState

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. `drain_s` bounds the wait for running generations, `load_s` loading and the first token after it."""

    drain_s: float = 120.0
    load_s: float = 600.0


@dataclass(slots=True)
class WeightChanger:
    """One change at a time. `current` is the folder whose weights are in the engine."""

    state: PolicyState
    verifier: Verifier
    staging: Staging
    current: Path
    limits: Limits = field(default_factory=Limits)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def change(self, request: WeightsRequest) -> PolicyInfo:
        """Serves the checkpoint that `request` names. Whatever fails, the old weights serve on.

        Raises:
            InvalidInput: the checkpoint was refused. Overloaded: another change is under way, or a generation does not end.
            UpstreamUnavailable: the engine could not load it.
        """
        if self._busy.locked():
            raise Overloaded("Another change of weights is under way. Try again when it is done.", retry_after_s=5)
        async with self._busy:
            started = time.monotonic()
            try:
                await self._change(request)
            except (InvalidInput, Overloaded, UpstreamUnavailable) as error:
                outcome = Outcome.REFUSED if isinstance(error, InvalidInput) else Outcome.FAILED
                metrics.CHANGES.labels(outcome).inc()
                log.warning("weights_kept", checkpoint=request.checkpoint, version=self.state.version, reason=error.detail)
                raise
            metrics.CHANGES.labels(Outcome.LOADED).inc()
            seconds = round(time.monotonic() - started, 2)
            log.info("weights_changed", checkpoint=request.checkpoint, version=self.state.version, seconds=seconds)
            return self.state.info()

    async def _change(self, request: WeightsRequest) -> None:
        candidate = await asyncio.to_thread(self.verifier.find, request.checkpoint)
        staged = await asyncio.to_thread(self.staging.take, candidate, self.state.version + 1)
        try:
            async with self.state.gate.alone(self.limits.drain_s):
                with metrics.PAUSE_SECONDS.time():
                    await self._load(staged)
                self.current = staged
                self.state.version += 1
                self.state.step = request.step
                metrics.VERSION.labels(self.state.served.model).set(self.state.version)
        finally:
            await asyncio.to_thread(self.staging.keep_only, self.current)

    async def _load(self, staged: Path) -> None:
        try:
            await self._into_engine(staged)
        except (EngineFault, TimeoutError) as error:
            await self._roll_back()
            raise UpstreamUnavailable(f"The engine did not take the weights: {error}. The old ones serve on.") from error

    async def _roll_back(self) -> None:
        try:
            await self._into_engine(self.current)
        except (EngineFault, TimeoutError) as error:
            self.state.broken = "A change of weights failed and the old weights could not be loaded again."
            log.error("rollback_failed", reason=str(error))

    async def _into_engine(self, directory: Path) -> None:
        async with asyncio.timeout(self.limits.load_s):
            await self.state.engine.load_weights(directory)
            await self.state.engine.probe()
