"""What a plan is made of: steps, each a process of its own, and how a step is known to be ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ProbeKind(StrEnum):
    HTTP = "http"
    REDIS = "redis"


@dataclass(frozen=True)
class Probe:
    """HTTP: a 200 from `url` means ready. Redis: a PING is answered there."""

    kind: ProbeKind
    url: str


@dataclass(frozen=True)
class Step:
    """A process to run. With a probe it is a service, which stays; without one a task, which is done when it exits with 0."""

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    """Steps that must be ready or done before this one is started."""
    probe: Probe | None = None
    required: bool = True
    """Whether the platform is of no use without it (else its death is noted and no more)."""
    url: str = ""
    env: dict[str, str] = field(default_factory=dict)
    start_timeout_s: float = 900.0
    stop_grace_s: float = 25.0


@dataclass(frozen=True)
class Plan:
    """Steps in their order (they are stopped in reverse) and the variables that all of them get.

    `given` has a digest for each further setting that the services find in the environment.
    """

    steps: tuple[Step, ...]
    url: str = ""
    env: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
