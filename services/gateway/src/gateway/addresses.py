"""Where the policy's replicas are: as the settings list them, or as a name resolves right now."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv6Address, ip_address

import httpx2
import structlog

log = structlog.get_logger(__name__)
MAX_REPLICAS = 64
"""So many are asked and shown in metrics at most."""


def listed(urls: str) -> Callable[[], Awaitable[Sequence[str]]]:
    """The addresses between the commas."""
    addresses = tuple(dict.fromkeys(url.strip() for url in urls.split(",") if url.strip()))[:MAX_REPLICAS]

    async def unchanged() -> Sequence[str]:
        return addresses

    return unchanged


def resolved(url: str) -> Callable[[], Awaitable[Sequence[str]]]:
    """One address for each that the host resolves to, such as a headless Service's ready pods; the last known while it does not."""
    base = httpx2.URL(url)
    port = base.port or (443 if base.scheme == "https" else 80)
    known: tuple[str, ...] = ()
    is_resolved = True

    async def looked_up() -> Sequence[str]:
        nonlocal known, is_resolved
        try:
            found = await asyncio.get_running_loop().getaddrinfo(base.host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # a part of a name that is too long is no name in DNS
            if is_resolved:
                log.warning("policy_not_resolved", host=base.host, error=str(error))
            is_resolved = False
            return known
        is_resolved = True
        hosts = sorted({str(address[4][0]) for address in found})[:MAX_REPLICAS]
        known = tuple(str(base.copy_with(host=_bracketed(host), port=port)) for host in hosts)
        return known

    return looked_up


def _bracketed(host: str) -> str:
    return f"[{host}]" if isinstance(ip_address(host.partition("%")[0]), IPv6Address) else host
