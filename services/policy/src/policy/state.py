"""What the running policy is: the identity it reports, and whether it can generate."""

from __future__ import annotations

from dataclasses import dataclass, field

from parallelsearch.protocol.observations import Layout
from policy.engines.interface import Device, Engine
from servicekit.health import Readiness


@dataclass(frozen=True, slots=True)
class Served:
    """What does not change while the process lives; `turn_tokens` is None where the policy's own limit is unknown."""

    model: str
    device: Device
    layout: Layout
    turn_tokens: int | None


@dataclass(slots=True)
class PolicyState:
    """Owned by the event loop. `version` rises with every change of weights; `step` is the training step they come from."""

    served: Served
    engine: Engine
    version: int = 1
    step: int | None = None
    checks: dict[str, str] = field(default_factory=dict)
    stalled: bool = False

    def failure(self) -> str | None:
        """Why nothing can be generated, or None."""
        return self.engine.failure or ("The engine makes no progress." if self.stalled else None)

    def readiness(self) -> Readiness:
        failure = self.failure()
        checks = {"engine": failure or "generates", "version": str(self.version)}
        return Readiness("failed" if failure else "ready", checks)
