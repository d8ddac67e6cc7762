"""What the running policy is: the identity it reports, and whether it can generate."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from parallelsearch.protocol.observations import Layout
from parallelsearch.schemas.weights import PolicyInfo
from policy.engines.interface import Device, Engine
from policy.gate import Gate
from servicekit.health import Readiness


@dataclass(frozen=True, slots=True)
class Served:
    """What does not change while the process lives; `turn_tokens` is None where the policy's own limit is unknown."""

    model: str
    device: Device
    layout: Layout
    turn_tokens: int | None


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """The tokenizer as clients load it, and its SHA-256."""

    content: bytes
    fingerprint: str

    @classmethod
    def of(cls, engine: Engine) -> TokenizerFile | None:
        text = engine.tokenizer_json()
        return None if text is None else cls(text.encode(), hashlib.sha256(text.encode()).hexdigest())


@dataclass(slots=True)
class PolicyState:
    """Owned by the event loop. `version` rises with every change of weights; `step` is the training step they come from.

    `broken` says why no weights can be trusted any more; `stalled` that the engine makes no progress.
    """

    served: Served
    engine: Engine
    gate: Gate = field(default_factory=Gate)
    version: int = 1
    step: int | None = None
    stalled: bool = False
    broken: str | None = None
    tokenizer: TokenizerFile | None = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizer = TokenizerFile.of(self.engine)

    def failure(self) -> str | None:
        """Why nothing can be generated, or None."""
        return self.engine.failure or self.broken or ("The engine makes no progress." if self.stalled else None)

    def readiness(self) -> Readiness:
        failure = self.failure()
        checks = {"engine": failure or "generates", "version": str(self.version)}
        return Readiness("failed" if failure else "ready", checks)

    def info(self) -> PolicyInfo:
        return PolicyInfo(
            model=self.served.model,
            version=str(self.version),
            step=self.step,
            engine=self.engine.name,
            device=self.served.device.value,
            context_length=self.engine.context_length,
            layout=self.served.layout,
            turn_tokens=self.served.turn_tokens,
            special_tokens=list(self.engine.special_tokens()),
            tokenizer=self.tokenizer.fingerprint if self.tokenizer else "",
        )
