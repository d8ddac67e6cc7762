"""What the platform looks like right now: the last snapshot, corrected by what lives and what each service says of itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

import httpx2

from parallelsearch.supervisor import groups, probes, snapshot
from parallelsearch.supervisor.places import StateFolder
from parallelsearch.supervisor.snapshot import Phase, Snapshot, StepPhase, StepState
from parallelsearch.supervisor.steps import Probe, ProbeKind


class Health(StrEnum):
    READY = "ready"
    DEGRADED = "degraded"
    STARTING = "starting"
    NOT_READY = "not ready"
    DIED = "died"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ServiceStatus:
    """`detail` is what the service reports, or how it died."""

    name: str
    health: Health
    detail: str = ""
    pid: int | None = None
    url: str = ""
    log: str = ""
    required: bool = True


@dataclass(frozen=True)
class PlatformStatus:
    """`health` is that of the weakest required service; `detail` says what is wrong with the platform as a whole."""

    health: Health
    services: tuple[ServiceStatus, ...] = ()
    url: str = ""
    ready_after_s: float | None = None
    detail: str = ""

    @property
    def dead(self) -> tuple[ServiceStatus, ...]:
        return tuple(service for service in self.services if service.health is Health.DIED)


def look(state: StateFolder) -> PlatformStatus:
    """Asks every service; at most a few seconds."""
    found = snapshot.read(state.snapshot)
    if found is None:
        return PlatformStatus(Health.STOPPED)
    supervised = groups.is_alive(found.supervisor)
    steps = [step for step in found.steps if not step.task]
    with ThreadPoolExecutor(max(1, len(steps))) as pool, probes.create_client() as client:
        services = tuple(pool.map(lambda step: look_at(step, client), steps))
    alive = [service for service in services if service.health not in {Health.DIED, Health.STOPPED}]
    if not supervised and not alive:
        return PlatformStatus(Health.STOPPED, detail=last_words(found))
    detail = "" if supervised else "The supervising process is gone; `parallelsearch down` ends what it left."
    return PlatformStatus(overall(services), services, found.url, found.ready_after_s, detail)


def last_words(found: Snapshot) -> str:
    if found.phase is Phase.FAILED:
        return f"The last start failed: {found.detail}"
    return "" if found.phase is Phase.STOPPED else "It was not stopped in an orderly way (a reboot or a kill)."


def look_at(step: StepState, client: httpx2.Client) -> ServiceStatus:
    pid = step.group.pid if step.group else None

    def status(health: Health, detail: str = "") -> ServiceStatus:
        return ServiceStatus(step.name, health, detail, pid, step.url, step.log, step.required)

    if step.phase is StepPhase.DIED:
        return status(Health.DIED, step.detail if step.exit_code is None and step.detail else step.death)
    if step.phase in {StepPhase.STOPPED, StepPhase.STOPPING}:
        return status(Health.STOPPED)
    if step.group is None or step.phase is StepPhase.WAITING:
        return status(Health.STARTING, "waits for its turn")
    if not groups.is_alive(step.group):
        return status(Health.DIED, f"is not running any more, see {step.log}")
    answer = probes.ask(probe_of(step), client)
    if answer.ready:
        return status(Health.DEGRADED if answer.degraded else Health.READY, answer.detail)
    return status(Health.STARTING if step.phase is StepPhase.STARTING else Health.NOT_READY, answer.detail)


def probe_of(step: StepState) -> Probe:
    if step.url.startswith("http"):
        return Probe(ProbeKind.HTTP, f"{step.url}/readyz")
    return Probe(ProbeKind.REDIS, step.url)


def overall(services: tuple[ServiceStatus, ...]) -> Health:
    """The worst of the required ones; an optional one that is not ready only degrades."""
    required = {service.health for service in services if service.required}
    for worst in (Health.DIED, Health.STOPPED, Health.NOT_READY, Health.STARTING):
        if worst in required:
            return worst
    optional_ill = any(service.health is not Health.READY for service in services if not service.required)
    return Health.DEGRADED if Health.DEGRADED in required or optional_ill else Health.READY
