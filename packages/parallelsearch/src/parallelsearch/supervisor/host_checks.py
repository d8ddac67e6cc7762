"""Checks of the machine itself: Python, disk, memory, and ports with who holds them."""

from __future__ import annotations

import errno
import shutil
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from parallelsearch.supervisor.findings import Finding, Level, finding
from parallelsearch.supervisor.settings import Endpoint, PlatformSettings

GB = 1e9
DISK_FIRST_GB = 6.0
DISK_LATER_GB = 1.0
MEMORY_GB, MEMORY_WITHOUT_POLICY_GB = 5.0, 1.5
"""Below this, processes are killed sooner or later."""
MEMORY_WITH_ROOM_GB = 8.0
CGROUP = Path("/sys/fs/cgroup")


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Finding:
    text = ".".join(map(str, version))
    return finding("python", (3, 11) <= version < (3, 13), text, "Python 3.11 or 3.12 is needed: make PYTHON=python3.11 run")


def check_disk(folder: Path, needed_gb: float) -> Finding:
    """Free space where the folder lies or will lie."""
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free_gb = shutil.disk_usage(place).free / GB
    text = f"{free_gb:.1f} GB free below {place}, {needed_gb:.0f} GB needed"
    return finding("disk", free_gb >= needed_gb, text, "Free some, or choose another disk with PARALLELSEARCH_STATE_DIR.")


def available_memory_gb(cgroup: Path = CGROUP) -> float:
    """What the machine has available, or the container, whichever is less."""
    available = float(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        reclaimable = _inactive_file(cgroup / "memory.stat")
        available = min(available, limit - used + reclaimable)
    return available / GB


def _inactive_file(stat: Path) -> int:
    words = (line.split() for line in stat.read_text().splitlines())
    return next((int(value) for name, value in words if name == "inactive_file"), 0)


def check_memory(available_gb: float, needed_gb: float) -> Finding:
    remedy = "End other programs, or set POLICY_BASE_URL to a policy that runs elsewhere."
    if needed_gb <= available_gb < MEMORY_WITH_ROOM_GB and needed_gb == MEMORY_GB:
        return Finding("memory", Level.NOTE, f"{available_gb:.1f} GB available, {MEMORY_WITH_ROOM_GB:.0f} GB leave room", remedy)
    return finding("memory", available_gb >= needed_gb, f"{available_gb:.1f} GB available, {needed_gb:g} GB needed", remedy)


def try_to_listen(endpoint: Endpoint) -> None:
    """A server that is closing its last connections does not count.

    Raises:
        OSError: no server can listen there.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((endpoint.host, endpoint.port))
        except UnicodeError:  # what no name of a host can be
            raise OSError(errno.EADDRNOTAVAIL, "it is no name of a host") from None


def holder(port: int) -> str:
    """Who listens on a port, as far as this user may see it."""
    with suppress(psutil.AccessDenied, psutil.NoSuchProcess):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return "another program"


def check_ports(endpoints: Iterable[tuple[str, Endpoint]]) -> tuple[Finding, ...]:
    """One finding for all that are free, and one for each that is not."""
    faults, free = [], []
    for name, endpoint in endpoints:
        try:
            try_to_listen(endpoint)
            free.append(f"{endpoint.port} ({name})")
        except OSError as error:
            faults.append(_port_fault(name, endpoint, error))
    fine = Finding("ports", Level.OK, f"free: {', '.join(free)}")
    return tuple(faults) or (fine,)


def _port_fault(name: str, endpoint: Endpoint, error: OSError) -> Finding:
    if error.errno != errno.EADDRINUSE:
        text = f"the {name} cannot listen on {endpoint.host}, port {endpoint.port} ({(error.strerror or str(error)).rstrip('.')})"
        variables = "REDIS_PORT" if name == "valkey" else f"{name.upper()}_HOST and {name.upper()}_PORT"
        return Finding("ports", Level.PROBLEM, text, f"Name an address of this machine and a port that you may use: {variables}")
    text = f"port {endpoint.port} of the {name} is taken by {holder(endpoint.port)}"
    variable = "REDIS_PORT" if name == "valkey" else f"{name.upper()}_PORT"
    other = endpoint.port + (100 if endpoint.port + 100 <= 65_535 else -100)
    return Finding("ports", Level.PROBLEM, text, f"Stop it, or choose another port: {variable}={other}")


def needed_memory_gb(settings: PlatformSettings) -> float:
    return MEMORY_WITHOUT_POLICY_GB if settings.policy_base_url else MEMORY_GB
