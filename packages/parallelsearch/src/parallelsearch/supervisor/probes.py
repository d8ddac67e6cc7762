"""Asks a service whether it is ready."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2

from parallelsearch.supervisor.steps import Probe, ProbeKind

TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Answer:
    """`detail` is what the service says of itself, or why it could not be asked."""

    ready: bool
    detail: str = ""
    degraded: bool = False


def create_client() -> httpx2.Client:
    """One for many questions. A proxy of the environment is passed by: what is asked here runs on this machine."""
    return httpx2.Client(timeout=TIMEOUT_S, trust_env=False)


def ask(probe: Probe, client: httpx2.Client) -> Answer:
    return ask_http(probe.url, client) if probe.kind is ProbeKind.HTTP else ask_redis(probe.url)


def ask_http(url: str, client: httpx2.Client) -> Answer:
    try:
        response = client.get(url)
    except httpx2.ConnectError:
        return Answer(False, "not listening yet")
    except httpx2.HTTPError as error:
        return Answer(False, f"no answer ({type(error).__name__})")
    detail = describe(response)
    return Answer(response.status_code == 200, detail, detail.startswith("degraded"))


def describe(response: httpx2.Response) -> str:
    """`status: check, check` from the body of `/readyz`, else the status code."""
    try:
        body = response.json()
    except ValueError:
        return f"HTTP {response.status_code}"
    if not isinstance(body, dict) or "status" not in body:
        return f"HTTP {response.status_code}"
    checks = body.get("checks")
    parts = [f"{name} {state}" for name, state in checks.items()] if isinstance(checks, dict) else []
    return ": ".join([str(body["status"]), *([", ".join(parts)] if parts else [])])


def ask_redis(url: str) -> Answer:
    import redis  # a fifth of what most commands import, which ask nobody but a gateway

    client = redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
    try:
        client.ping()
    except redis.RedisError as error:
        return Answer(False, str(error))
    finally:
        client.close()
    return Answer(True, "ready")
